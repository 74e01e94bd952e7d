/* Which process of a training this is, from the variables that starters of processes set. */
#include "test.h"

#include "tapedeck/deck.h"

#include <string.h>

static const char *const all[] = {
    "TAPEDECK_RUN",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "GROUP_RANK",
    "LOCAL_WORLD_SIZE",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_CLUSTER_NAME",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "OMPI_MCA_ess_base_jobid",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMI_JOBID",
    "HYDRA_CONTROL_FD",
};

/* "NAME=VALUE NAME=VALUE" is the environment, as far as it says something of ranks. */
static void set_environment(const char *text) {
    char copy[512];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsetenv(all[i]);
    }
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = 0;
        assert_int_equal(setenv(word, value + 1, 1), 0);
    }
}

/* What real starters set: torchrun of PyTorch 2.15, srun 22.05, mpirun of OpenMPI 4.1.4, mpiexec of MPICH 4.0.2. */
static const struct {
    const char *environment;
    int64_t rank, world, local_rank, node, attempt;
} cases[] = {
    {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 GROUP_RANK=1 LOCAL_WORLD_SIZE=4 "
     "TORCHELASTIC_RESTART_COUNT=1 "
     "TORCHELASTIC_RUN_ID=job MASTER_ADDR=a",
     5, 8, 1, 1, 2},
    {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_RESTART_COUNT=2 "
     "SLURM_JOB_ID=7 SLURM_STEP_ID=0",
     3, 4, 1, 1, 3},
    {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
     "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_orte_ess_node_rank=1 PMIX_NAMESPACE=9",
     3, 4, 1, 1, 1},
    {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
     "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_MCA_orte_ess_node_rank=1 PMIX_NAMESPACE=9",
     1, 2, 1, 0, 1},
    {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2", 1, 2, 1, 0, 1},
    /* torchrun started by srun: torchrun's processes are more than Slurm's */
    {"RANK=2 WORLD_SIZE=4 LOCAL_RANK=0 GROUP_RANK=1 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=job "
     "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
     2, 4, 0, 1, 1},
};

static void each_starter_is_known(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char launch[TD_RANK_TEXT_SIZE];
        td_rank rank = {.size = sizeof rank};
        set_environment(cases[i].environment);
        assert_true(td_rank_detect(&rank, launch));
        assert_int_equal(rank.rank, cases[i].rank);
        assert_int_equal(rank.world, cases[i].world);
        assert_int_equal(rank.local_rank, cases[i].local_rank);
        assert_int_equal(rank.node, cases[i].node);
        assert_int_equal(rank.attempt, cases[i].attempt);
    }
}

static void one_process_is_none(void **state) {
    (void)state;
    static const char *const none[] = {"", "RANK=0 WORLD_SIZE=1", "RANK=2 WORLD_SIZE=2",
                                       "RANK=x WORLD_SIZE=4", "SLURM_PROCID=0 SLURM_JOB_ID=7"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char launch[TD_RANK_TEXT_SIZE];
        td_rank rank = {.size = sizeof rank};
        set_environment(none[i]);
        assert_false(td_rank_detect(&rank, launch));
    }
}

static void launch_of(const char *environment, char launch[TD_RANK_TEXT_SIZE]) {
    td_rank rank = {.size = sizeof rank};
    set_environment(environment);
    assert_true(td_rank_detect(&rank, launch));
}

static void a_launch_has_one_name_in_all_its_processes(void **state) {
    (void)state;
    char a[TD_RANK_TEXT_SIZE], b[TD_RANK_TEXT_SIZE];
    launch_of("RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x MASTER_ADDR=h", a);
    launch_of("RANK=3 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x MASTER_ADDR=h "
              "TORCHELASTIC_RESTART_COUNT=1",
              b);
    assert_string_equal(a, b);
    launch_of("RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=y MASTER_ADDR=h", b);
    assert_string_not_equal(a, b);
    launch_of("RANK=0 WORLD_SIZE=4 TORCHELASTIC_RUN_ID=x TAPEDECK_RUN=mine", a);
    assert_string_equal(a, "mine");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_starter_is_known),
        cmocka_unit_test(one_process_is_none),
        cmocka_unit_test(a_launch_has_one_name_in_all_its_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

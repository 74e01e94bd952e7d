/* tapedeck weights: parameters out of a model, and back into one. */
#include "command.h"
#include "options.h"

#include "tapedeck/model.h"

static const char help[] =
    "tapedeck weights MODEL --to FILE [--from WEIGHTS]\n"
    "\n"
    "Writes the parameters of a model. MODEL is a run's folder or a .safetensors file that holds "
    "its\n"
    "architecture. FILE's ending says in which format:\n"
    "\n"
    "  weights.csv           layer,parameter,index,value: a row for each number, index as \"i,j\"\n"
    "  weights.npz           an array LAYER.PARAMETER for each, for numpy.load\n"
    "  weights.safetensors   with the architecture: a model again\n"
    "\n"
    "  --to FILE        where to\n"
    "  --from WEIGHTS   first replace the parameters by those of this .csv or .safetensors file; "
    "all\n"
    "                   must be there, in their shapes\n"
    "\n"
    "Examples\n"
    "  tapedeck weights runs/demo --to weights.csv\n"
    "  tapedeck weights runs/demo --from edited.csv --to edited.safetensors\n"
    "\n"
    "`weights: weights.csv` in an experiment file starts training from exported weights.\n";

static int run(int count, char **arguments) {
    const char *to = NULL, *from = NULL;
    const option options[] = {{.name = "to", .text = &to}, {.name = "from", .text = &from}};
    if (!parse_options(&command_weights, options, 2, &count, arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1 || !to) {
        return misuse(&command_weights, "expected MODEL and --to FILE");
    }
    td_error error = {0};
    td_model *model = td_model_load(arguments[0], &error);
    if (!model) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    td_status status = from ? td_weights_load(model, from, &error) : TD_OK;
    if (!status) {
        status = td_weights_save(model, to, &error);
    }
    td_model_destroy(model);
    return status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
}

const command command_weights = {
    .name = "weights",
    .summary = "write a model's parameters to CSV, NPZ or safetensors, and back",
    .help = help,
    .run = run,
};

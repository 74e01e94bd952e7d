/* tapedeck weights: parameters out of a model, and back into one. */
#include "command.h"
#include "json.h"
#include "options.h"
#include "output.h"

#include "tapedeck/model.h"

#include <string.h>
#include <strings.h>

static const char help[] =
    "tapedeck weights MODEL --to FILE [--from WEIGHTS] [--tensors] [--force]\n"
    "\n"
    "Writes the parameters of a model. MODEL is a run's folder, .keras, .h5, .onnx, a "
    "SavedModel's\n"
    "folder, or a .safetensors file that holds its architecture. Weights alone (.safetensors, "
    ".npz,\n"
    ".h5, a .pt that torch.save wrote, a checkpoint or a SavedModel of TensorFlow's) are converted "
    "to\n"
    "the formats that need no architecture, names and element types as they are. FILE's ending "
    "says "
    "in\n"
    "which format:\n"
    "\n"
    "  weights.csv         layer,parameter,index,value: a row for each number, index as \"i,j\"\n"
    "  weights.npz         an array LAYER.PARAMETER for each, for numpy.load\n"
    "  folder/             a file LAYER.PARAMETER.npy for each\n"
    "  model.safetensors   with the architecture: a model again\n"
    "  model.keras         the same for Keras 3; model.h5 in its older format\n"
    "  model.onnx          the operators its layers are made of, for onnxruntime and others; of a\n"
    "                      model that came from ONNX its graph, with the parameters as they are\n"
    "\n"
    "  --to FILE        where to; - is standard output, as CSV; -.npz, … in another format\n"
    "  --from WEIGHTS   first replace the parameters by those of this file: .csv or .npz as "
    "above,\n"
    "                   .safetensors or .pt (also a state dictionary of PyTorch, whose modules "
    "have\n"
    "                   the names of the layers), or another MODEL. Every parameter must be there, "
    "in\n"
    "                   its shape, and nothing else; otherwise all that is wrong is reported, and "
    "no "
    "file\n"
    "                   is written\n"
    "  --tensors        the tensors as the file has them, of a model too: also of one that cannot "
    "be\n"
    "                   loaded\n"
    "  --force          replace a file that is there already and holds no weights\n"
    "  --json           print what was written as JSON\n"
    "\n"
    "Examples\n"
    "  tapedeck weights runs/demo --to weights.csv\n"
    "  tapedeck weights runs/demo --from edited.csv --to edited.safetensors\n"
    "  tapedeck weights runs/demo --from state_dict.pt --to from_pytorch.safetensors\n"
    "  tapedeck weights checkpoint.pth --to checkpoint.npz\n"
    "\n"
    "`weights: weights.csv` in an experiment file starts training from exported weights.\n"
    "More: docs/models.md\n";

static bool is_model(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (!strcasecmp(dot, ".safetensors") || !strcasecmp(dot, ".keras") ||
                   !strcasecmp(dot, ".h5") || !strcasecmp(dot, ".onnx"));
}

/* A model that is saved as a model keeps the description of its data. */
static td_status save_model(const td_model *model, const char *note_text, const char *to,
                            td_error *error) {
    const td_model_note note = {TD_NOTE_DATA, note_text};
    return is_model(to) && note_text ? td_model_save(model, to, 1, &note, error)
                                     : td_weights_save(model, to, error);
}

static int convert_model(const char *path, bool raw, const char *to, size_t *count) {
    td_error error = {0};
    td_tensor_table *table = td_tensor_table_open(path, raw, &error);
    td_status status = table ? td_tensor_table_save(table, to, &error) : error.status;
    const char *remark = table ? td_tensor_table_about(table).remark : NULL;
    if (!status && remark) {
        note(remark);
    }
    *count = table ? td_tensor_table_about(table).count : 0;
    td_tensor_table_close(table);
    return status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
}

/* *count: of the tensors that were written. */
static int write_weights(const char *path, const char *from, const char *to, bool tensors,
                         size_t *count) {
    if (tensors) {
        return convert_model(path, true, to, count);
    }
    td_error error = {0};
    const char *const keys[] = {TD_NOTE_DATA};
    char *notes[1] = {NULL};
    td_model *model = td_model_load_with(path, 1, keys, notes, &error);
    if (!model && error.status == TD_NO_MODEL && !from) {
        return convert_model(path, false, to, count);
    }
    if (!model) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    td_status status = from ? td_weights_load(model, from, &error) : TD_OK;
    if (!status) {
        status = save_model(model, notes[0], to, &error);
    }
    *count = td_model_parameter_count(model);
    td_free_text(notes[0]);
    td_model_destroy(model);
    return status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
}

static int run_weights(int count, char **arguments) {
    const char *to = NULL, *from = NULL;
    bool tensors = false, force = false, json = false;
    const option options[] = {{.name = "to", .text = &to},
                              {.name = "from", .text = &from},
                              {.name = "tensors", .flag = &tensors},
                              {.name = "force", .flag = &force},
                              {.name = "json", .flag = &json}};
    if (!parse_options(&command_weights, options, sizeof options / sizeof *options, &count,
                       arguments)) {
        return EXIT_USAGE;
    }
    if (count != 1 || !to) {
        return misuse(&command_weights, "expected MODEL and --to FILE");
    }
    if (tensors && from) {
        return misuse(&command_weights, "--from replaces the parameters of a model: not with "
                                        "--tensors");
    }
    if (json && output_is_stdout(to)) {
        return misuse(&command_weights, "--to - and --json both print to standard output");
    }
    const char *const read[] = {arguments[0], from};
    const char *path = output_place(to, ".csv");
    if (!path || check_not_read(path, read, 2, force) ||
        check_free(path, force || td_output_is_ours(path))) {
        return EXIT_BAD;
    }
    size_t written = 0;
    int status = write_weights(arguments[0], from, path, tensors, &written);
    if (!status && json) {
        (void)fputs("{\"out\": ", stdout);
        print_json_text(path);
        printf(", \"tensors\": %zu}\n", written);
    }
    return output_pass(path, status);
}

const command command_weights = {
    .name = "weights",
    .summary =
        "write a model's parameters to CSV, NPZ, safetensors or Keras, and back into a model",
    .help = help,
    .run = run_weights,
};

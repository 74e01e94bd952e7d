/* tapedeck weights: parameters out of a model, and back into one. */
#include "command.h"
#include "options.h"

#include "tapedeck/model.h"

#include <string.h>
#include <strings.h>

static const char help[] =
    "tapedeck weights MODEL --to FILE [--from WEIGHTS]\n"
    "\n"
    "Writes the parameters of a model. MODEL is a run's folder, .keras, .h5, .onnx, or a "
    ".safetensors\n"
    "file that holds its architecture. FILE's ending says in which format:\n"
    "\n"
    "  weights.csv         layer,parameter,index,value: a row for each number, index as \"i,j\"\n"
    "  weights.npz         an array LAYER.PARAMETER for each, for numpy.load\n"
    "  model.safetensors   with the architecture: a model again\n"
    "  model.keras         the same for Keras 3\n"
    "  model.onnx          of a model that came from ONNX: its graph with the parameters as they "
    "are\n"
    "\n"
    "  --to FILE        where to\n"
    "  --from WEIGHTS   first replace the parameters by those of this file: .csv or .npz as "
    "above,\n"
    "                   .safetensors (also a state dictionary of PyTorch, whose modules have the\n"
    "                   names of the layers), or another MODEL. Every parameter must be there, in "
    "its\n"
    "                   shape, and nothing else; otherwise all that is wrong is said, and no file "
    "is\n"
    "                   written\n"
    "\n"
    "Examples\n"
    "  tapedeck weights runs/demo --to weights.csv\n"
    "  tapedeck weights runs/demo --from edited.csv --to edited.safetensors\n"
    "  tapedeck weights runs/demo --from state_dict.safetensors --to from_pytorch.safetensors\n"
    "\n"
    "`weights: weights.csv` in an experiment file starts training from exported weights.\n"
    "More: docs/models.md\n";

static bool is_model(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (!strcasecmp(dot, ".safetensors") || !strcasecmp(dot, ".keras"));
}

/* A model written as a model keeps what it says of its data. */
static td_status save(const td_model *model, const char *note_text, const char *to,
                      td_error *error) {
    const td_model_note note = {TD_NOTE_DATA, note_text};
    return is_model(to) && note_text ? td_model_save(model, to, 1, &note, error)
                                     : td_weights_save(model, to, error);
}

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
    const char *const keys[] = {TD_NOTE_DATA};
    char *notes[1] = {NULL};
    td_model *model = td_model_load_with(arguments[0], 1, keys, notes, &error);
    if (!model) {
        return fail(EXIT_BAD, "%s", error.text);
    }
    td_status status = from ? td_weights_load(model, from, &error) : TD_OK;
    if (!status) {
        status = save(model, notes[0], to, &error);
    }
    td_free_text(notes[0]);
    td_model_destroy(model);
    return status ? fail(status_of(status), "%s", error.text) : EXIT_GOOD;
}

const command command_weights = {
    .name = "weights",
    .summary =
        "write a model's parameters to CSV, NPZ, safetensors or Keras, and back into a model",
    .help = help,
    .run = run,
};

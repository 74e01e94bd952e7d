#include "diagnose/loop.h"

static void find_unregistered_layers(td__case *c) {
    double count = td__loop_number(c, "unregistered", "count");
    if (count < 1) {
        return;
    }
    td__suspicion *s =
        td__loop_error(c, TD_SURE, td__loop_layer(c, "unregistered"), 1,
                       "torch.nn.ModuleList or ModuleDict instead of a list or dict");
    td__because(s, NULL, 1, count,
                td__say(c, "gradients, and in no optimizer: %s",
                        td__loop_names(c, "unregistered", "names")));
}

const td__rule td__rule_unregistered_layers = {
    .info = {.name = "unregistered_layers",
             .meaning =
                 "layers in a Python list or dict are not part of the model, and not trained",
             .reads = "the loop's unregistered",
             .statistic = "parameters of modules in lists and dicts of the model that get a "
                          "gradient and that no optimizer has",
             .threshold = "one: model.parameters(), .to() and state_dict() leave it out",
             .remedy = "torch.nn.ModuleList, torch.nn.ModuleDict"},
    .title = "layers that are not registered",
    .explains = TD__UNCHANGED_WEIGHTS | TD__PLATEAU | TD__SLOW_CONVERGENCE | TD__LOSS_FLOOR,
    .needs = TD__NEEDS_LOOP,
    .find = find_unregistered_layers,
    .after = true,
};

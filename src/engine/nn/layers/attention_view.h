#ifndef TAPEDECK_NN_LAYERS_ATTENTION_VIEW_H
#define TAPEDECK_NN_LAYERS_ATTENTION_VIEW_H

#include "nn/layer.h"

enum { TD__ATTENTION_VIEWS = 3 };
extern const td__layer_view td__attention_views[TD__ATTENTION_VIEWS];

#endif

/* What torch.save wrote: tensors by name, from an archive or the older stream of pickles.
 *
 * Nothing of a file is run: see pickle.h. Names of classes and functions are looked up in a list of
 * those that only describe tensors; every other is named in an error.
 */
#ifndef TAPEDECK_TORCH_TORCH_H
#define TAPEDECK_TORCH_TORCH_H

#include "tensor/list.h"

/* Whether a file begins as the older format does, or as any pickle. */
bool td__torch_is_pickle(const unsigned char *head, size_t size);
/* Of bytes that stay valid as long as the list. Dictionaries within dictionaries give names like
 * model.conv1.weight. */
TD_NODISCARD td_status td__torch_parse(const char *path, const void *bytes, size_t size,
                                       td__tensor_list *list, td_error *error);

#endif

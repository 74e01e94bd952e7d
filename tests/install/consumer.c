/* A program that knows Tapedeck only as pkg-config describes it: prints the version of the library
 * it runs with, and a tensor. */
#include <tapedeck/tensor.h>

#include <stdio.h>

int main(void) {
    td_error error = {0};
    td_tensor *tensor = td_tensor_create("installed", TD_FLOAT32, TD_SHAPE(2, 2), &error);
    if (!tensor) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    printf("%s\n", td_version());
    td_status status = td_tensor_print(tensor, stdout);
    td_tensor_destroy(tensor);
    return status != TD_OK;
}

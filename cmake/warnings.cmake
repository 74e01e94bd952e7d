# Warnings and sanitizers that every target is built with.
add_library(td_flags INTERFACE)
target_compile_options(td_flags INTERFACE
    -Wall -Wextra -Wshadow -Wpointer-arith -Wundef
    # snprintf into a fixed buffer cuts on purpose; seen or not with the -O level, and by GCC alone
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
    $<$<COMPILE_LANGUAGE:C>:-Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla>
    $<$<BOOL:${TAPEDECK_WERROR}>:-Werror>)
target_compile_definitions(td_flags INTERFACE _GNU_SOURCE TD_VERSION_STRING="${PROJECT_VERSION}")
if(TAPEDECK_SANITIZE)
    target_compile_options(td_flags INTERFACE -fsanitize=${TAPEDECK_SANITIZE}
                           -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(td_flags INTERFACE -fsanitize=${TAPEDECK_SANITIZE})
endif()
if(TAPEDECK_FUZZ)
    target_compile_options(td_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
# Multiplies and adds are fused only where kernels ask for it (whose options come after these): a machine
# that could does not change digits.
add_compile_options(-ffp-contract=off)
# Small structs are cleared by stores: GCC would use "rep stos", which takes longer to start than they do. Not
# under the sanitizers, whose commands clang-tidy reads: it refuses options of GCC.
if(NOT TAPEDECK_SANITIZE)
    include(CheckCCompilerFlag)
    set(stores -mmemset-strategy=vector_loop:512:noalign,libcall:-1:noalign)
    check_c_compiler_flag(${stores} TD_MEMSET_STRATEGY)
    if(TD_MEMSET_STRATEGY)
        add_compile_options($<$<COMPILE_LANGUAGE:C>:${stores}>)
    endif()
endif()

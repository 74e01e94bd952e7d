# td_module(NAME USES …): one object library per folder of src/.
#
# Each module gets its own include folder in the build tree, made of links to just the headers it
# may include: "MODULE/header.h" for internal headers, "tapedeck/header.h" for public ones. An
# include of anything else does not compile.

# The module that owns each public header; a header not listed here belongs to the module of its name.
set(TD_HEADER_OWNER_literal base)
set(TD_HEADER_OWNER_ops tape)
set(TD_HEADER_OWNER_stats tensor)

set(TD_MODULES "" CACHE INTERNAL "")

function(td_link_headers folder module)
    file(MAKE_DIRECTORY ${folder}/tapedeck)
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${module} ${folder}/${module} SYMBOLIC)
    file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/include/tapedeck/*.h)
    foreach(header IN LISTS headers)
        get_filename_component(stem ${header} NAME_WE)
        set(owner ${stem})
        if(DEFINED TD_HEADER_OWNER_${stem})
            set(owner ${TD_HEADER_OWNER_${stem}})
        endif()
        if(owner STREQUAL module)
            file(CREATE_LINK ${header} ${folder}/tapedeck/${stem}.h SYMBOLIC)
        endif()
    endforeach()
endfunction()

# The sources in a module's kernels/ folder, compiled once per instruction set; they tell the variants
# apart by TD_VARIANT. Not fast-math: only what IEEE arithmetic does not need for vector code.
function(td_kernel_variants module folder)
    if(NOT ARGN)
        return()
    endif()
    set(variants portable)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        list(APPEND variants avx2 avx512)
    elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
        list(APPEND variants neon)
    endif()
    set(flags_portable "") # multiplies and adds apart: the same bits on every machine
    set(flags_neon -ffp-contract=fast)
    set(flags_avx2 -ffp-contract=fast -mavx2 -mfma)
    set(flags_avx512 -ffp-contract=fast -mavx512f -mavx512vl -mavx512dq -mavx512bw -mfma -mprefer-vector-width=512)
    # Sanitizers at -O3 take the compiler minutes; what they check is the same at -O1.
    set(optimize -O3)
    if(TAPEDECK_SANITIZE)
        set(optimize -O1)
    endif()
    foreach(variant IN LISTS variants)
        set(target td_${module}_${variant})
        add_library(${target} OBJECT ${ARGN})
        target_include_directories(${target} PRIVATE ${folder})
        target_link_libraries(${target} PRIVATE td_flags)
        target_compile_definitions(${target} PRIVATE TD_VARIANT=${variant})
        target_compile_options(${target} PRIVATE ${optimize} -fopenmp-simd -fno-math-errno
            -fno-trapping-math ${flags_${variant}})
        set(TD_MODULES ${TD_MODULES} ${module}_${variant} CACHE INTERNAL "")
    endforeach()
endfunction()

function(td_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES")
    set(visible ${name})
    foreach(used IN LISTS arg_USES)
        list(APPEND visible ${TD_VISIBLE_${used}})
    endforeach()
    list(REMOVE_DUPLICATES visible)
    set(TD_VISIBLE_${name} ${visible} CACHE INTERNAL "")
    set(TD_MODULES ${TD_MODULES} ${name} CACHE INTERNAL "")

    set(folder ${CMAKE_BINARY_DIR}/visible/${name})
    file(REMOVE_RECURSE ${folder})
    foreach(module IN LISTS visible)
        td_link_headers(${folder} ${module})
    endforeach()

    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c
         ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
    set(kernels ${sources})
    list(FILTER kernels INCLUDE REGEX "/kernels/[^/]*\\.c$")
    list(FILTER sources EXCLUDE REGEX "/kernels/[^/]*\\.c$")
    if(NOT sources)
        return()
    endif()
    td_kernel_variants(${name} ${folder} ${kernels})
    add_library(td_${name} OBJECT ${sources})
    target_include_directories(td_${name} PRIVATE ${folder})
    target_link_libraries(td_${name} PRIVATE td_flags)
    if(COMMAND td_module_extras_${name})
        cmake_language(CALL td_module_extras_${name} td_${name})
    endif()
endfunction()

# td_room(ROOM): the modules that follow are folders of src/ROOM.
# td_module(NAME USES MODULE …): one object library per module, src/ROOM/NAME.
#
# Each module gets its own include folder in the build tree, made of links to just the headers it
# may include: "MODULE/header.h" for internal headers of the modules that it names, "tapedeck/header.h"
# for public ones of these and of those that they use in turn. An include of anything else does not compile.

# The module that owns each public header; a header not listed here belongs to the module of its name.
set(TD_HEADER_OWNER_literal base)
set(TD_HEADER_OWNER_ops tape)
set(TD_HEADER_OWNER_stats tensor)
set(TD_HEADER_OWNER_view answers)

set(TD_MODULES "" CACHE INTERNAL "")

function(td_link_public_headers folder module)
    file(MAKE_DIRECTORY ${folder}/tapedeck)
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

# Makes a module's include folder, visible/NAME of the build tree, and sets TD_NEEDED_NAME: the module and
# all that it uses, directly or not.
function(td_make_visible name place)
    set(folder ${CMAKE_BINARY_DIR}/visible/${name})
    file(REMOVE_RECURSE ${folder})
    set(needed ${name})
    set(TD_PLACE_${name} ${place} CACHE INTERNAL "")
    file(MAKE_DIRECTORY ${folder})
    foreach(module IN ITEMS ${name} ${ARGN})
        file(CREATE_LINK ${TD_PLACE_${module}} ${folder}/${module} SYMBOLIC)
        list(APPEND needed ${TD_NEEDED_${module}})
    endforeach()
    list(REMOVE_DUPLICATES needed)
    foreach(module IN LISTS needed)
        td_link_public_headers(${folder} ${module})
    endforeach()
    set(TD_NEEDED_${name} ${needed} CACHE INTERNAL "")
endfunction()

macro(td_room room)
    set(TD_ROOM ${room})
    list(APPEND TD_ROOMS ${CMAKE_SOURCE_DIR}/src/${room})
endmacro()

function(td_module name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "USES")
    set(place ${CMAKE_SOURCE_DIR}/src/${TD_ROOM}/${name})
    set(folder ${CMAKE_BINARY_DIR}/visible/${name})
    td_make_visible(${name} ${place} ${arg_USES})
    set(TD_MODULES ${TD_MODULES} ${name} CACHE INTERNAL "")

    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${place}/*.c ${place}/*.cc)
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

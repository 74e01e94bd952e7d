# The Python extension tapedeck._native: the recorder half of the library (no tape and no
# compute threads, of which a process with PyTorch has enough) and python/src, against CPython's stable
# interface. One file serves every CPython from 3.10 on.
#
# In a build of the project it is put beside links to the Python sources, in python/tapedeck of the
# build folder; scikit-build-core (pyproject.toml) installs it, and the program, into a wheel.
set(TAPEDECK_PYTHON AUTO CACHE STRING
    "Build the Python extension: ON, OFF, or AUTO (where Python's headers are installed)")

if(NOT TAPEDECK_PYTHON)
    return()
endif()
if(TAPEDECK_PYTHON STREQUAL AUTO)
    find_package(Python3 3.10 QUIET COMPONENTS Interpreter Development.Module)
else()
    find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
endif()
if(NOT Python3_Development.Module_FOUND)
    return()
endif()

set(recorder ${TD_NEEDED_sink} ${TD_NEEDED_answers})
list(REMOVE_DUPLICATES recorder)
set(objects "")
foreach(module IN LISTS recorder)
    list(APPEND objects $<TARGET_OBJECTS:td_${module}>)
endforeach()
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/src/*.c)
add_library(python_native MODULE ${sources} ${objects})
set_target_properties(python_native PROPERTIES OUTPUT_NAME _native PREFIX "" SUFFIX .abi3.so
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/tapedeck)
target_include_directories(python_native PRIVATE ${CMAKE_SOURCE_DIR}/include)
target_include_directories(python_native SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_link_libraries(python_native PRIVATE td_flags Threads::Threads PkgConfig::SQLITE PkgConfig::PNG
                      PkgConfig::ZLIB PkgConfig::YAML PkgConfig::JANSSON m ${CMAKE_DL_LIBS})
target_link_options(python_native PRIVATE
                    LINKER:--version-script=${CMAKE_SOURCE_DIR}/python/src/exports.map)

# The build folder as a place to import from.
file(GLOB python_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/tapedeck/*)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/python/tapedeck)
foreach(file IN LISTS python_files)
    get_filename_component(name ${file} NAME)
    file(CREATE_LINK ${file} ${CMAKE_BINARY_DIR}/python/tapedeck/${name} SYMBOLIC)
endforeach()

td_plugins_beside(${CMAKE_BINARY_DIR}/python/tapedeck python_native)
if(SKBUILD)
    # The program, whole: a wheel has no place for a library that it would find.
    file(GLOB program_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cli/*.c)
    add_executable(python_program ${program_sources} $<TARGET_OBJECTS:td_demo_files>)
    set_target_properties(python_program PROPERTIES OUTPUT_NAME tapedeck
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/program)
    target_include_directories(python_program PRIVATE ${CMAKE_SOURCE_DIR}/cli)
    target_link_libraries(python_program PRIVATE td_flags tapedeck_internal)
    target_sources(python_program PRIVATE ${CMAKE_SOURCE_DIR}/cmake/old_glibc.c)
    target_sources(python_native PRIVATE ${CMAKE_SOURCE_DIR}/cmake/old_glibc.c)
    install(TARGETS python_native LIBRARY DESTINATION tapedeck COMPONENT python)
    install(TARGETS python_program RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
    get_property(plugins GLOBAL PROPERTY TD_PLUGINS)
    if(plugins) # ../lib/tapedeck from the program, where it looks for them
        add_dependencies(python_program ${plugins})
        foreach(plugin IN LISTS plugins)
            target_sources(${plugin} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/old_glibc.c)
        endforeach()
        install(TARGETS ${plugins} LIBRARY DESTINATION ${SKBUILD_DATA_DIR}/lib/tapedeck COMPONENT python)
    endif()
endif()

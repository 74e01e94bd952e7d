# The shared library, the static one, another that tests link (which see internal functions), and the
# program.
set(TD_LINK_LIBRARIES Threads::Threads PkgConfig::SQLITE PkgConfig::PNG
    PkgConfig::TURBOJPEG PkgConfig::ZLIB PkgConfig::YAML PkgConfig::JANSSON
    m ${CMAKE_DL_LIBS})

function(td_library name)
    set(objects "")
    foreach(module IN LISTS TD_MODULES)
        if(TARGET td_${module})
            list(APPEND objects $<TARGET_OBJECTS:td_${module}>)
        endif()
    endforeach()
    add_library(${name} SHARED ${objects})
    set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                               $<INSTALL_INTERFACE:include>)
    target_link_libraries(${name} PRIVATE td_flags ${TD_LINK_LIBRARIES})
    # Only td_… leaves the library, whatever C++ templates and static archives bring along; calls
    # inside it are bound when it is linked.
    # Its threads sleep in its code for as long as the process lives: it stays when it is closed.
    target_link_options(${name} PRIVATE LINKER:-z,nodelete LINKER:-Bsymbolic-functions
                        LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map)
    set_target_properties(${name} PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.map)
    if(NOT TAPEDECK_SANITIZE) # whose run-time is only there once a program is linked
        target_link_options(${name} PRIVATE LINKER:-z,defs)
    endif()
    # Two functions of the C++ library are used, and loading all of it would be a third of what a
    # program takes to start: they are linked in where the compiler can do that.
    include(CheckLinkerFlag)
    check_linker_flag(CXX -static-libstdc++ TD_HAS_STATIC_CXX)
    if(TD_HAS_STATIC_CXX AND NOT TAPEDECK_SANITIZE)
        target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
    endif()
    add_library(${name}_static STATIC ${objects})
    set_target_properties(${name}_static PROPERTIES OUTPUT_NAME ${name} EXPORT_NAME static)
    target_include_directories(${name}_static INTERFACE $<INSTALL_INTERFACE:include>)
    target_link_libraries(${name}_static INTERFACE ${TD_LINK_LIBRARIES} stdc++)
    # Tests see internal functions too.
    add_library(${name}_internal STATIC ${objects})
    target_include_directories(${name}_internal PUBLIC ${CMAKE_SOURCE_DIR}/include ${TD_ROOMS})
    target_link_libraries(${name}_internal PUBLIC td_flags ${TD_LINK_LIBRARIES})
endfunction()

# td_demo_files(FOLDER): the target td_demo_files, the files of `tapedeck demo` as objects of a program in FOLDER.
function(td_demo_files folder)
    set(made ${CMAKE_BINARY_DIR}/demo_files.c)
    set(root ${CMAKE_SOURCE_DIR})
    add_custom_command(OUTPUT ${made}
        COMMAND ${CMAKE_COMMAND} -D SOURCE=${root} -D OUT=${made} -P ${root}/cmake/bytes.cmake
        DEPENDS ${root}/cmake/bytes.cmake ${root}/examples/demo/demo.yaml ${root}/examples/data/digits.csv.gz VERBATIM)
    add_library(td_demo_files OBJECT ${made})
    target_include_directories(td_demo_files PRIVATE ${root}/${folder})
endfunction()

function(td_program name folder)
    td_demo_files(${folder})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
    add_executable(${name} ${sources} $<TARGET_OBJECTS:td_demo_files>)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME tapedeck)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/${folder})
    target_link_libraries(${name} PRIVATE td_flags tapedeck PkgConfig::JANSSON Threads::Threads m)
    get_property(plugins GLOBAL PROPERTY TD_PLUGINS)
    if(plugins)
        add_dependencies(${name} ${plugins})
    endif()
endfunction()

# td_folder_programs(PREFIX LIBRARY FOLDER): every FOLDER/*.c and *.cc is a program of its own, built into
# the same folder of the build tree. Sets PREFIX_PROGRAMS to their names; the targets are PREFIX_NAME.
function(td_folder_programs prefix library folder)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.c ${folder}/*.cc)
    set(names "")
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        add_executable(${prefix}_${name} ${source})
        set_target_properties(${prefix}_${name} PROPERTIES OUTPUT_NAME ${name})
        target_link_libraries(${prefix}_${name} PRIVATE td_flags ${library} m)
        list(APPEND names ${name})
    endforeach()
    set(${prefix}_PROGRAMS ${names} PARENT_SCOPE)
endfunction()

# td_plugin(NAME [FROM FOLDER] [PACKAGE PREFIX=PACKAGE] [ALONE] USES MODULE …): libtapedeck-NAME.so of src/ROOM/FOLDER/ (NAME/), an
# optional engine that the library loads when it is needed; built where pkg-config has PACKAGE. It sees what a
# module sees. ALONE: it does not link the library, which gives it a table of functions.
function(td_plugin name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "PACKAGE;FROM" "USES")
    set(libraries td_flags m)
    if(arg_PACKAGE)
        string(REGEX MATCH "^([^=]*)=(.*)$" package ${arg_PACKAGE})
        set(prefix ${CMAKE_MATCH_1})
        string(REPLACE " " ";" packages ${CMAKE_MATCH_2})
        pkg_check_modules(${prefix} QUIET IMPORTED_TARGET ${packages})
        if(NOT ${prefix}_FOUND)
            message(STATUS "no ${packages}: built without libtapedeck-${name}.so")
            return()
        endif()
        list(APPEND libraries Threads::Threads PkgConfig::${prefix})
        if(SKBUILD AND DEFINED TD_SYSROOT) # static libraries, of which each needs others behind it
            list(APPEND libraries ${${prefix}_STATIC_LDFLAGS} m)
        endif()
    endif()
    if(NOT arg_ALONE)
        # In a wheel the program has the library within: what a plugin uses of it, it has within as well.
        list(APPEND libraries $<IF:$<BOOL:${SKBUILD}>,tapedeck_internal,tapedeck>)
    endif()
    if(NOT arg_FROM)
        set(arg_FROM ${name})
    endif()
    set(place ${CMAKE_SOURCE_DIR}/src/${TD_ROOM}/${arg_FROM})
    td_make_visible(${name} ${place} ${arg_USES})
    file(GLOB sources CONFIGURE_DEPENDS ${place}/*.c)
    add_library(tapedeck_${name} MODULE ${sources})
    set_target_properties(tapedeck_${name} PROPERTIES PREFIX lib OUTPUT_NAME tapedeck-${name})
    target_include_directories(tapedeck_${name} PRIVATE ${CMAKE_BINARY_DIR}/visible/${name})
    target_link_libraries(tapedeck_${name} PRIVATE ${libraries})
    if(arg_ALONE)
        set_property(GLOBAL APPEND PROPERTY TD_PLUGINS_ALONE tapedeck_${name})
        set(exports ${CMAKE_SOURCE_DIR}/cmake/exports-plugin.map)
        target_link_options(tapedeck_${name} PRIVATE LINKER:--version-script=${exports})
        set_target_properties(tapedeck_${name} PROPERTIES LINK_DEPENDS ${exports})
        if(NOT TAPEDECK_SANITIZE)
            target_link_options(tapedeck_${name} PRIVATE LINKER:-z,defs)
        endif()
    endif()
    set_property(GLOBAL APPEND PROPERTY TD_PLUGINS tapedeck_${name})
endfunction()

# td_plugins_beside(FOLDER TARGET …): programs with the library within, built into FOLDER, find the plugins
# that do not link it there.
function(td_plugins_beside folder)
    get_property(plugins GLOBAL PROPERTY TD_PLUGINS_ALONE)
    foreach(plugin IN LISTS plugins)
        string(REPLACE "tapedeck_" "libtapedeck-" file ${plugin}.so)
        file(MAKE_DIRECTORY ${folder})
        file(CREATE_LINK ${CMAKE_BINARY_DIR}/${file} ${folder}/${file} SYMBOLIC)
        foreach(target IN LISTS ARGN)
            add_dependencies(${target} ${plugin})
        endforeach()
    endforeach()
endfunction()

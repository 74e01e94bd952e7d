# The shared library, the static one that tests link (internal symbols included), and the program.
set(TD_LINK_LIBRARIES Threads::Threads OpenMP::OpenMP_C PkgConfig::SQLITE PkgConfig::PNG
    PkgConfig::TURBOJPEG PkgConfig::ZLIB PkgConfig::YAML PkgConfig::JANSSON PkgConfig::LIBZIP
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
    # Tests see internal functions too.
    add_library(${name}_internal STATIC ${objects})
    target_include_directories(${name}_internal PUBLIC ${CMAKE_SOURCE_DIR}/include
                               ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(${name}_internal PUBLIC td_flags ${TD_LINK_LIBRARIES})
endfunction()

function(td_program name folder)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
    add_executable(${name} ${sources})
    set_target_properties(${name} PROPERTIES OUTPUT_NAME tapedeck)
    target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/${folder})
    target_link_libraries(${name} PRIVATE td_flags tapedeck)
endfunction()

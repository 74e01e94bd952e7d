# cmake --install: the library, its headers, the program, pkg-config's file, the man page and the
# shells' completions.
include(GNUInstallDirs)

install(TARGETS tapedeck LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
get_property(plugins GLOBAL PROPERTY TD_PLUGINS)
if(plugins)
    set_target_properties(${plugins} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${plugins} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/tapedeck DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")

if(TARGET tapedeck_program)
    # The program finds the library beside itself, whatever the prefix.
    file(RELATIVE_PATH libraries_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(tapedeck_program PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_bin}")
    install(TARGETS tapedeck_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The file says where things are relative to itself, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
     ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pkgconfig ${prefix_from_pkgconfig})
configure_file(${CMAKE_SOURCE_DIR}/packaging/tapedeck.pc.in ${CMAKE_BINARY_DIR}/tapedeck.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tapedeck.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The program writes its own man page and completions; where it cannot be run, they are left out.
if(TARGET tapedeck_program AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    set(pages ${CMAKE_BINARY_DIR}/pages)
    function(td_page name folder)
        add_custom_command(OUTPUT ${pages}/${name}
                           COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
                           COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C.UTF-8 ${CMAKE_CROSSCOMPILING_EMULATOR}
                                   $<TARGET_FILE:tapedeck_program> ${ARGN} > ${pages}/${name}
                           DEPENDS tapedeck_program VERBATIM)
        install(FILES ${pages}/${name} DESTINATION ${folder})
        set_property(GLOBAL APPEND PROPERTY TD_PAGES ${pages}/${name})
    endfunction()
    td_page(tapedeck.1 ${CMAKE_INSTALL_MANDIR}/man1 --man)
    td_page(tapedeck ${CMAKE_INSTALL_DATADIR}/bash-completion/completions --completion bash)
    td_page(_tapedeck ${CMAKE_INSTALL_DATADIR}/zsh/site-functions --completion zsh)
    td_page(tapedeck.fish ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d --completion fish)
    get_property(written GLOBAL PROPERTY TD_PAGES)
    add_custom_target(tapedeck_pages ALL DEPENDS ${written})
endif()

# cpack -G DEB, cpack -G TGZ
set(CPACK_PACKAGE_NAME tapedeck)
set(CPACK_PACKAGE_VENDOR "tapedeck")
set(CPACK_PACKAGE_CONTACT "tapedeck maintainers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "show what happens inside a neural network while it trains")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
include(CPack)

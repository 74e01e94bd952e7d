# Writes the files of `tapedeck demo` as C: cmake -D SOURCE=… -D OUT=FILE.c -P bytes.cmake. In the program they stand in
# one folder, so the experiment reads its data from there.
file(READ ${SOURCE}/examples/demo/demo.yaml experiment)
string(REPLACE "../data/" "" experiment "${experiment}")
file(WRITE ${OUT}.yaml "${experiment}")
set(code "#include \"demo.h\"\n")
foreach(part IN ITEMS experiment=${OUT}.yaml data=${SOURCE}/examples/data/digits.csv.gz)
    string(REGEX MATCH "^([^=]*)=(.*)$" part ${part})
    set(name ${CMAKE_MATCH_1})
    file(READ ${CMAKE_MATCH_2} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(APPEND code "static const unsigned char ${name}[] = {${bytes}};\n")
endforeach()
file(WRITE ${OUT} "${code}const demo_file demo_files[DEMO_FILES] = {\n"
     "    {\"demo.yaml\", experiment, sizeof experiment},\n    {\"digits.csv.gz\", data, sizeof data},\n};\n")

# How a folder of src/ becomes a static library and a test program.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

option(PACER_WERROR "Warnings are errors" OFF)
set(PACER_SANITIZE "" CACHE STRING "address,undefined | thread | empty")
option(PACER_FUZZ "With clang: *_fuzz.cpp become libFuzzer programs" OFF)

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wimplicit-fallthrough)
if(PACER_WERROR)
  add_compile_options(-Werror)
endif()
if(PACER_SANITIZE)
  add_compile_options(-fsanitize=${PACER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # vptr: it opens a pipe to look at memory, and so takes a lack of file descriptors, which a test
  # makes on purpose, for a broken object.
  add_compile_options(-fno-sanitize=vptr)
  add_link_options(-fsanitize=${PACER_SANITIZE})
endif()
if(PACER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PACER_FUZZ needs clang: -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# tools/layers.txt -> pacer_layer_<folder>, the list of folders it may include (and so link).
set(PACER_FOLDERS "")
file(STRINGS ${CMAKE_SOURCE_DIR}/tools/layers.txt rows REGEX "^[a-z]")
foreach(row IN LISTS rows)
  string(REGEX REPLACE "#.*" "" row "${row}")
  string(REGEX MATCH "^([a-z]+)[ ]*:(.*)$" _ "${row}")
  set(folder ${CMAKE_MATCH_1})
  string(STRIP "${CMAKE_MATCH_2}" deps)
  separate_arguments(deps UNIX_COMMAND "${deps}")
  if(deps STREQUAL "*")
    set(deps ${PACER_FOLDERS})
  endif()
  set(pacer_layer_${folder} ${deps})
  list(APPEND PACER_FOLDERS ${folder})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tools/layers.txt)

# Sanitizers do not watch the wide kernels: one such file takes minutes to compile with them. The scalar tier, which
# every test of a model runs too, is watched, and the contract tests put poison around what a kernel may write.
set(pacer_isa_unsanitized "")
if(PACER_SANITIZE)
  set(pacer_isa_unsanitized -fno-sanitize=all)
endif()

# Flags of each kernel tier; nothing outside kernels/<isa>/ is compiled with them.
set(pacer_isa_flags_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
# -Wno-maybe-uninitialized: the intrinsics of gcc 12 have deliberately undefined operands, which it warns of.
set(pacer_isa_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -mbmi -mbmi2
    -Wno-maybe-uninitialized)
if(PACER_SANITIZE MATCHES address)
  # Their many unrolled variants take minutes each with checks in line; as calls, and without those of
  # local arrays, half a minute.
  list(APPEND pacer_isa_flags_avx512 --param=asan-instrumentation-with-call-threshold=0
       --param=asan-stack=0)
endif()
set(pacer_isa_flags_avx512vnni ${pacer_isa_flags_avx512} -mavx512vnni)
set(pacer_isa_flags_amx ${pacer_isa_flags_avx512} -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16)

# pacer_folder(<name> [PUBLIC libs...] [PRIVATE libs...])
# Sources are every .cpp of the folder; *_test.cpp go to <name>_test (label <name>), each *_fuzz.cpp to <name>_<stem>.
function(pacer_folder name)
  cmake_parse_arguments(arg "" "" "PUBLIC;PRIVATE" ${ARGN})
  set(dir ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${dir}/*.cpp)
  set(fuzzers ${sources})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|_bench)\\.cpp$|/main\\.cpp$")
  list(TRANSFORM pacer_layer_${name} PREPEND pacer_ OUTPUT_VARIABLE links)

  if(sources)
    add_library(pacer_${name} STATIC ${sources})
    target_include_directories(pacer_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(pacer_${name} PUBLIC ${links} ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
    foreach(isa avx2 avx512 avx512vnni amx)
      set(isa_sources ${sources})
      list(FILTER isa_sources INCLUDE REGEX "/kernels/${isa}/")
      if(isa_sources)
        set_source_files_properties(${isa_sources} PROPERTIES COMPILE_OPTIONS
                                    "${pacer_isa_flags_${isa}};-ffp-contract=off;${pacer_isa_unsanitized}")
      endif()
    endforeach()
  else()
    add_library(pacer_${name} INTERFACE)
    target_include_directories(pacer_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(pacer_${name} INTERFACE ${links} ${arg_PUBLIC} ${arg_PRIVATE})
  endif()
  if(tests)
    pacer_test(${name}_test LABEL ${name} SOURCES ${tests} LINKS pacer_${name} ${arg_PUBLIC} ${arg_PRIVATE})
  endif()
  foreach(fuzzer IN LISTS fuzzers)
    pacer_fuzzer(${name} ${fuzzer})
  endforeach()
endfunction()

# One fuzz target: libFuzzer with PACER_FUZZ, else a program that replays tests/fuzz/<folder>/<stem>/, and a test that
# does so.
function(pacer_fuzzer folder source)
  cmake_path(GET source STEM stem)
  set(target ${folder}_${stem})
  add_executable(${target} ${source})
  target_link_libraries(${target} PRIVATE pacer_${folder})
  if(PACER_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    return()
  endif()
  target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
  add_test(NAME ${target} COMMAND ${target} ${CMAKE_SOURCE_DIR}/tests/fuzz/${folder}/${stem})
  set_tests_properties(${target} PROPERTIES LABELS ${folder} TIMEOUT 300)
endfunction()

# pacer_test(<target> LABEL <label> SOURCES ... LINKS ...): one GoogleTest program, one CTest entry per TEST.
function(pacer_test target)
  cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "SOURCES;LINKS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${target} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE ${arg_LINKS} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${target} PRIVATE PACER_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  include(GoogleTest)
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST
                       PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

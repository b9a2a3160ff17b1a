# How Motley's own code is compiled, and one function per kind of thing that can be added.
add_library(mot_flags INTERFACE)
target_compile_options(mot_flags INTERFACE -Wall -Wextra -Wvla -fno-math-errno -ffp-contract=off)
target_compile_definitions(mot_flags INTERFACE _GNU_SOURCE MOT_VERSION="${PROJECT_VERSION}")
if(MOT_NATIVE)
  target_compile_options(mot_flags INTERFACE -march=native)
endif()
if(MOT_WERROR)
  target_compile_options(mot_flags INTERFACE -Werror)
endif()
if(MOT_SANITIZE)
  target_compile_options(mot_flags INTERFACE -fsanitize=${MOT_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(mot_flags INTERFACE -fsanitize=${MOT_SANITIZE})
endif()

# mot_sources(FILE...): add files of the calling folder to the library.
function(mot_sources)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  target_sources(motley PRIVATE ${files})
endfunction()

# The thread sanitizer runs what has threads of ours and no OpenMP to speak of.
set(MOT_TEST_ENVIRONMENT "")
if(MOT_SANITIZE MATCHES thread)
  set(MOT_TEST_ENVIRONMENT
    "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/thread_sanitizer.supp")
endif()
set(MOT_THREAD_TESTS hello_graph policy_library sched_choice sched_conformance sched_models
                     staleness start task trace)

# mot_test(NAME [ARGS...] [NEEDS PROGRAM...]): tests/test_NAME.c, exit 77 = skipped.  A StarPU of its
# own state folder, and as few workers as every machine has.  NEEDS: programs of ours that it runs.
function(mot_test name)
  cmake_parse_arguments(A "" "" NEEDS ${ARGN})
  if(MOT_SANITIZE MATCHES thread AND NOT name IN_LIST MOT_THREAD_TESTS)
    return()
  endif()
  # The demo, the real model and curves run the same code as the other tests: under a sanitizer they
  # would only take longer.
  if(MOT_SANITIZE AND name MATCHES "^demo$|smollm2$|curves$")
    return()
  endif()
  add_executable(test_${name} ${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.c)
  target_link_libraries(test_${name} PRIVATE motley PkgConfig::CMOCKA)
  target_compile_definitions(test_${name} PRIVATE
    MOT_TEST_DATA="${CMAKE_CURRENT_SOURCE_DIR}/data"
    MOT_BINARY_DIR="${CMAKE_BINARY_DIR}" MOT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  if(A_NEEDS)
    add_dependencies(test_${name} ${A_NEEDS})
  endif()
  add_test(NAME ${MOT_TEST_PREFIX}${name} COMMAND test_${name} ${A_UNPARSED_ARGUMENTS})
  set_tests_properties(${MOT_TEST_PREFIX}${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900
    ENVIRONMENT "STARPU_HOME=${CMAKE_BINARY_DIR};MOTLEY_MODELS=;HWLOC_COMPONENTS=-pci;GOMP_SPINCOUNT=10000;${MOT_TEST_ENVIRONMENT}")
endfunction()

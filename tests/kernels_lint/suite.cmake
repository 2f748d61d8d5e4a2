# No object of an ISA level may define a weak symbol; the test of the check itself shows that it can fail.
if(HEARTH_ISA_OBJECTS AND NOT HEARTH_SANITIZE)
  add_test(NAME weak_symbols
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_weak_symbols.py ${CMAKE_NM} ${HEARTH_ISA_OBJECTS})
  set_tests_properties(weak_symbols PROPERTIES LABELS lint)

  add_library(kernels_lint_sample OBJECT ${CMAKE_CURRENT_LIST_DIR}/weak_sample.cpp)
  add_test(NAME weak_symbols_are_found
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/check_weak_symbols.py ${CMAKE_NM}
            $<TARGET_OBJECTS:kernels_lint_sample>)
  set_tests_properties(weak_symbols_are_found PROPERTIES LABELS lint WILL_FAIL ON)
endif()

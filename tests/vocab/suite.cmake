# Seven published vocabularies with the tokens their original tokenisers give (label vocab). Needs HEARTH_SHARED_DATA.
if(NOT HEARTH_SHARED_DATA)
  message(STATUS "suite vocab: left out, HEARTH_SHARED_DATA is not set")
  return()
endif()

set(vocab_folder ${CMAKE_BINARY_DIR}/vocab)
file(MAKE_DIRECTORY ${vocab_folder})

# Two of them are published as tokenizer.json only.
function(hearth_vocab_conversion name bos)
  add_test(NAME vocab_convert_${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/tokenizer_to_gguf.py
    ${HEARTH_SHARED_DATA}/vocab/${name}.tokenizer.json --out ${vocab_folder}/${name}.gguf ${bos})
  set_tests_properties(vocab_convert_${name} PROPERTIES LABELS vocab FIXTURES_SETUP vocab_files)
endfunction()
hearth_vocab_conversion(qwen2 "")
hearth_vocab_conversion(llama-bpe "--bos=<|begin_of_text|>")

hearth_test(vocab text vocab ${CMAKE_CURRENT_LIST_DIR}/vocab_test.cpp)
target_compile_definitions(vocab PRIVATE HEARTH_VOCAB_FOLDER="${vocab_folder}")
set_tests_properties(vocab PROPERTIES FIXTURES_REQUIRED vocab_files)

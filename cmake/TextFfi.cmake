# Builds rust/text_ffi with cargo and offers it as the imported static library `text_ffi`.

find_program(CARGO cargo REQUIRED)
set(text_ffi_dir ${CMAKE_SOURCE_DIR}/rust/text_ffi)
set(text_ffi_target_dir ${CMAKE_SOURCE_DIR}/build/rust)  # shared by all presets: built once
set(text_ffi_lib ${text_ffi_target_dir}/release/libpacer_text_ffi.a)

file(GLOB_RECURSE text_ffi_sources CONFIGURE_DEPENDS ${text_ffi_dir}/src/*.rs)
add_custom_command(
  OUTPUT ${text_ffi_lib}
  COMMAND ${CMAKE_COMMAND} -E env --unset=CARGO_BUILD_TARGET ${CARGO} build --release --locked --target-dir ${text_ffi_target_dir}
          --manifest-path ${text_ffi_dir}/Cargo.toml
  DEPENDS ${text_ffi_sources} ${text_ffi_dir}/Cargo.toml ${text_ffi_dir}/Cargo.lock
  COMMENT "cargo build text_ffi"
  VERBATIM)
add_custom_target(text_ffi_build DEPENDS ${text_ffi_lib})

add_library(text_ffi STATIC IMPORTED GLOBAL)
add_dependencies(text_ffi text_ffi_build)
set_target_properties(text_ffi PROPERTIES IMPORTED_LOCATION ${text_ffi_lib})
target_include_directories(text_ffi INTERFACE ${text_ffi_dir}/include)
target_link_libraries(text_ffi INTERFACE ${CMAKE_DL_LIBS} Threads::Threads)

# The chat page inside the program: src/server/web_page.h, defined by a file that is made here.
find_program(FATHOM_NODE node)
find_program(FATHOM_NPM npm)
mark_as_advanced(FATHOM_NODE FATHOM_NPM)
set(web_default OFF)
if(FATHOM_NODE AND FATHOM_NPM AND NOT CMAKE_CROSSCOMPILING)
  set(web_default ON)
endif()
option(FATHOM_WEB "Build the chat page into the program (takes node and npm)" ${web_default})

# Gives the target the page, or the reason why there is none.
function(fathom_web_page target)
  set(file ${PROJECT_BINARY_DIR}/web_page.cpp)
  if(FATHOM_WEB)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/src/*)
    file(GLOB others CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/web/*.ts)
    add_custom_command(OUTPUT ${file}
      COMMAND ${PROJECT_SOURCE_DIR}/tools/build-web ${file}
      DEPENDS ${sources} ${others} ${PROJECT_SOURCE_DIR}/web/index.html
              ${PROJECT_SOURCE_DIR}/web/package-lock.json ${PROJECT_SOURCE_DIR}/web/embed.mjs
              ${PROJECT_SOURCE_DIR}/tools/build-web ${PROJECT_SOURCE_DIR}/cmake/no_web_page.cpp.in
      COMMENT "The chat page")
  else()
    set(reason "it was built with FATHOM_WEB off (on takes node and npm)")
    configure_file(${PROJECT_SOURCE_DIR}/cmake/no_web_page.cpp.in ${file} @ONLY)
  endif()
  target_sources(${target} PRIVATE ${file})
endfunction()

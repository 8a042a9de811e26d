# cmake -D VIEWER= -D OUTPUT= -P embed.cmake
# Writes the page's sources and their digests into a C++ file; the scripts become one, in the order named here.
set(scripts dom.js data.js heat.js state.js overview.js heads.js map.js links.js head.js main.js)
file(READ ${VIEWER}/page.html kPageHtml)
file(READ ${VIEWER}/page.css kPageStyle)
set(kPageScript "")
foreach(name ${scripts})
  file(READ ${VIEWER}/${name} part)
  string(APPEND kPageScript "${part}\n")
endforeach()
string(SHA256 kStyleDigest "${kPageStyle}")
string(SHA256 kScriptDigest "${kPageScript}")

set(code "// Written by src/report/embed.cmake.\n#include \"report/sources.h\"\n\nnamespace polyhead::report {\n\n")
foreach(name kPageHtml kPageStyle kPageScript kStyleDigest kScriptDigest)
  string(APPEND code "const std::string_view ${name} = R\"viewer(${${name}})viewer\";\n")
endforeach()
file(WRITE ${OUTPUT} "${code}\n}  // namespace polyhead::report\n")

# -D FOLDER= as well: the page as files, for the Python package, which fills them in itself.
if(FOLDER)
  file(WRITE ${FOLDER}/page.js "${kPageScript}")
  file(COPY ${VIEWER}/page.html ${VIEWER}/page.css DESTINATION ${FOLDER})
endif()

// Everything that the library must not do, for symbols_test to find.
#include <cstdio>
#include <cstdlib>
#include <iostream>

void misbehave(int how) {
  char text[16];
  std::snprintf(text, sizeof text, "%d", how);
  std::cout << text;
  std::cerr << text;
  std::puts(text);
  std::printf("%d %s", how, text);
  std::fwrite(text, 1, sizeof text, stdout);
  std::fprintf(stderr, "%d", how);
  if (how == 1) std::exit(1);
  std::abort();
}

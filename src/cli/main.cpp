// pacer: one program for serving, running and inspecting language models on CPUs.
#include "cli/program.h"

int main(int argc, char** argv) {
  return pacer::cli::run_program(argc, argv);
}

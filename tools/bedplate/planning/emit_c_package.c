/* SPDX-License-Identifier: MIT */
/* Packages. Sources lie in src, where each of these systems looks for them; the library and its
 * headers come there by `make -f bedplate.mk`, for the core that they were built for. */
#include "tools/bedplate/planning/emit_c_package.h"

#include <stddef.h>
#include <string.h>

#define FROZEN_ALONE(text) "@FROZEN@" text "@FROZEN@"

static const char take_library[] = "# Puts the library, as `make VARIANT=CORE install-library "
                                   "PREFIX=DIR` made it, beside the trainer:\n"
                                   "#     make -f bedplate.mk BEDPLATE=DIR CORE=cortex-m7\n"
                                   "BEDPLATE ?= /usr/local\nCORE ?= cortex-m7\n"
                                   "library:\n"
                                   "\tmkdir -p src/$(CORE) && cp -r $(BEDPLATE)/include/. src/\n"
                                   "\tcp $(BEDPLATE)/lib/libbedplate.a src/$(CORE)/libbedplate.a\n"
                                   ".PHONY: library\n";

static const char readme[] = "# A trainer made by bedplate @VERSION@\n\n"
                             "It trains one model in static memory. src/trainer.h says what it "
                             "does; src/plan.h has its sizes "
                             "in bytes.\n"
                             "First put the library beside it, built for your core:\n\n"
                             "    make -f bedplate.mk BEDPLATE=DIR CORE=cortex-m7\n";

static const char arduino_properties[] =
    "name=BedplateTrainer\nversion=@VERSION@\nauthor=bedplate plan --emit-c\n"
    "maintainer=bedplate plan --emit-c <bedplate@example.invalid>\n"
    "sentence=Trains and runs one neural network in static memory.\n"
    "paragraph=The same bits as the program on a PC. All bytes were planned before.\n"
    "category=Data Processing\nurl=https://example.invalid/bedplate\narchitectures=*\n"
    "includes=trainer.h\nprecompiled=true\nldflags=-lbedplate -lm\ndot_a_linkage=false\n";

static const char arduino_keywords[] =
    "bp_status\tKEYWORD1\nbp_trainer_outcome\tKEYWORD1\nbp_sensor\tKEYWORD1\n"
    "trainer_init\tKEYWORD2\ntrainer_step\tKEYWORD2\ntrainer_place\tKEYWORD2\n"
    "trainer_learn\tKEYWORD2\ntrainer_predict\tKEYWORD2\ntrainer_classify\tKEYWORD2\n"
    "trainer_generate\tKEYWORD2\ntrainer_evaluate\tKEYWORD2\ntrainer_keep\tKEYWORD2\n"
    "trainer_recall\tKEYWORD2\ntrainer_get\tKEYWORD2\ntrainer_put\tKEYWORD2\n"
    "PLAN_ARENA_BYTES\tLITERAL1\nPLAN_BATCH\tLITERAL1\nPLAN_CLASSES\tLITERAL1\n"
    "PLAN_OUTPUTS\tLITERAL1\n";

static const char arduino_sketch[] =
    "// Learns labelled samples from a sensor. Put your own in the place of read_sample.\n"
    "#include <trainer.h>\n\n"
    "static int32_t sample[PLAN_SAMPLE_ELEMENTS]; // numbers are the bits of floats\n\n"
    "static int32_t read_sample(uint32_t elements) {\n"
    "  for (uint32_t i = 0; i < elements; i++) {\n"
    "    const float number = (float)analogRead(A0) / 1024.0f;\n"
    "    memcpy(&sample[i], &number, sizeof number);\n  }\n"
    "  return 0; // its class\n}\n\n"
    "void setup() {\n"
    "  Serial.begin(115200);\n"
    "  Serial.println(trainer_init() == BP_OK ? \"ready\" : \"it failed\");\n}\n\n"
    "void loop() {\n"
    "  const uint32_t elements = plan_columns[0].elements;\n"
    "  bp_trainer_outcome outcome;\n"
    "  for (uint32_t i = 0; i < PLAN_BATCH; i++) {\n"
    "    const int32_t label = read_sample(elements);\n"
    "    if (trainer_place(i, sample, elements, label) != BP_OK) {\n"
    "      Serial.println(\"the sample is refused\");\n      return;\n    }\n  }\n"
    "  if (trainer_learn(PLAN_BATCH, &outcome) == BP_OK) {\n"
    "    Serial.println(outcome.loss);\n  }\n}\n";

static const emit_c_package_file arduino[] = {{"library.properties", arduino_properties},
                                              {"keywords.txt", arduino_keywords},
                                              {"examples/Learn/Learn.ino", arduino_sketch},
                                              {"README.md", readme},
                                              {"bedplate.mk", take_library},
                                              {NULL, NULL}};

static const char zephyr_module[] = "name: bedplate_trainer\n"
                                    "build:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\n";

static const char zephyr_kconfig[] =
    "config BEDPLATE_TRAINER\n\tbool \"A trainer of bedplate\"\n"
    "\tselect FPU if CPU_HAS_FPU\n"
    "\thelp\n\t  Trains one model in static memory (src/trainer.h).\n\n"
    "config BEDPLATE_TRAINER_CORE\n\tstring \"The folder of src with the library of this core\"\n"
    "\tdefault \"cortex-m7\"\n\tdepends on BEDPLATE_TRAINER\n";

static const char zephyr_cmake[] =
    "if(CONFIG_BEDPLATE_TRAINER)\n"
    "  set(BEDPLATE_SRC ${CMAKE_CURRENT_LIST_DIR}/../src)\n"
    "  zephyr_include_directories(${BEDPLATE_SRC})\n"
    "  zephyr_library_named(bedplate_trainer)\n"
    "  zephyr_library_sources(${BEDPLATE_SRC}/plan.c ${BEDPLATE_SRC}/trainer.c)\n" FROZEN_ALONE(
        "  zephyr_library_sources(${BEDPLATE_SRC}/frozen.c)\n") "  "
                                                                "zephyr_library_compile_options(-"
                                                                "ffp-contract=off)\n"
                                                                "  zephyr_library_import(bedplate\n"
                                                                "    "
                                                                "${BEDPLATE_SRC}/"
                                                                "${CONFIG_BEDPLATE_TRAINER_CORE}/"
                                                                "libbedplate.a)\n"
                                                                "endif()\n";

static const emit_c_package_file zephyr[] = {
    {"zephyr/module.yml", zephyr_module},    {"zephyr/Kconfig", zephyr_kconfig},
    {"zephyr/CMakeLists.txt", zephyr_cmake}, {"README.md", readme},
    {"bedplate.mk", take_library},           {NULL, NULL}};

static const char cmsis_description[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<package schemaVersion=\"1.7.7\" xmlns:xs=\"http://www.w3.org/2001/XMLSchema-instance\"\n"
    "         xs:noNamespaceSchemaLocation=\"PACK.xsd\">\n"
    "  <vendor>Bedplate</vendor>\n  <name>Trainer</name>\n"
    "  <description>Trains and runs one neural network in static memory.</description>\n"
    "  <url>https://example.invalid/bedplate/</url>\n"
    "  <license>LICENSE</license>\n"
    "  <releases>\n    <release version=\"@VERSION@\" date=\"2026-01-01\">Made by plan --emit-c."
    "</release>\n  </releases>\n"
    "  <conditions>\n    <condition id=\"Cortex-M\">\n"
    "      <accept Dcore=\"Cortex-M4\"/>\n      <accept Dcore=\"Cortex-M7\"/>\n"
    "      <accept Dcore=\"Cortex-M33\"/>\n      <accept Dcore=\"Cortex-M55\"/>\n"
    "    </condition>\n  </conditions>\n"
    "  <components>\n"
    "    <component Cclass=\"Machine Learning\" Cgroup=\"Bedplate\" Csub=\"Trainer\" "
    "Cversion=\"@VERSION@\"\n               condition=\"Cortex-M\">\n"
    "      <description>The tables of one model and what runs them.</description>\n"
    "      <files>\n"
    "        <file category=\"doc\" name=\"README.md\"/>\n"
    "        <file category=\"include\" name=\"src/\"/>\n"
    "        <file category=\"header\" name=\"src/trainer.h\"/>\n"
    "        <file category=\"header\" name=\"src/plan.h\"/>\n"
    "        <file category=\"source\" name=\"src/trainer.c\"/>\n"
    "        <file category=\"source\" name=\"src/plan.c\"/>\n" FROZEN_ALONE(
        "        <file category=\"source\" name=\"src/frozen.c\"/>\n") "      </files>\n    "
                                                                       "</component>\n  "
                                                                       "</components>\n</"
                                                                       "package>\n";

static const char licence[] = "src/*/libbedplate.a and its headers have the MIT licence, which "
                              "goes with every copy of them.\n";

static const emit_c_package_file cmsis_pack[] = {{"Bedplate.Trainer.pdsc", cmsis_description},
                                                 {"LICENSE", licence},
                                                 {"README.md", readme},
                                                 {"bedplate.mk", take_library},
                                                 {NULL, NULL}};

static const char esp_manifest[] =
    "version: \"@VERSION@\"\n"
    "description: Trains and runs one neural network in static memory.\n"
    "url: https://example.invalid/bedplate\n"
    "dependencies:\n  idf: \">=5.0\"\n";

static const char esp_cmake[] =
    "set(BEDPLATE_CORE \"esp32s3\" CACHE STRING \"the folder of src with the library of this "
    "core\")\n"
    "idf_component_register(\n"
    "  SRCS \"src/plan.c\" \"src/trainer.c\"" FROZEN_ALONE(
        " \"src/frozen.c\"") "\n  INCLUDE_DIRS \"src\")\n"
                             "target_compile_options(${COMPONENT_LIB} PRIVATE -ffp-contract=off)\n"
                             "add_prebuilt_library(bedplate "
                             "\"src/${BEDPLATE_CORE}/libbedplate.a\")\n"
                             "target_link_libraries(${COMPONENT_LIB} PUBLIC bedplate m)\n";

static const emit_c_package_file esp_idf[] = {{"idf_component.yml", esp_manifest},
                                              {"CMakeLists.txt", esp_cmake},
                                              {"README.md", readme},
                                              {"bedplate.mk", take_library},
                                              {NULL, NULL}};

static const emit_c_package packages[] = {
    {"arduino", {"src", "examples", "examples/Learn", NULL}, arduino},
    {"zephyr", {"src", "zephyr", NULL, NULL}, zephyr},
    {"cmsis-pack", {"src", NULL, NULL, NULL}, cmsis_pack},
    {"esp-idf", {"src", NULL, NULL, NULL}, esp_idf}};

const emit_c_package *emit_c_package_of(const char *form)
{
    for (size_t i = 0; i < sizeof packages / sizeof packages[0]; i++) {
        if (strcmp(packages[i].form, form) == 0) {
            return &packages[i];
        }
    }
    return NULL;
}

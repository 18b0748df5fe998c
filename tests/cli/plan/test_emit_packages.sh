#!/bin/bash
# SPDX-License-Identifier: MIT
# plan --emit-c --as FORM: folders by the rules of Arduino, Zephyr, CMSIS packs and ESP-IDF. Their sources compile as C99
# without extensions by gcc and clang, for Cortex-M7 and rv32imc where a compiler of these is there, and the sketch as C++.
. "$(dirname "$0")/../lib.sh"

kit=$work/kit
make -s install-library PREFIX="$kit" DESTDIR= >/dev/null 2>&1
check $? "install the library"
mkdir -p "$work/mlp"
echo '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' >"$work/mlp/config.json"
plan=(plan --model "$work/mlp" --max-steps 20 --optim sgd --per-device-train-batch-size 8 --predict)
version=$("$program" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -1)

# compiles NAME COMMAND..: all sources of the package.
compiles() {
    local name=$1 source
    shift
    for source in "$work/p/src/"*.c; do
        "$@" -std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=off -I"$work/p/src" -c "$source" -o "$work/object" \
            >"$work/made" 2>&1 || break
    done
    check $? "$name" "$(cat "$work/made")"
}
# listed FILE: every source that it names is there, and every source is named.
listed() {
    local missing='' name
    for name in "$work/p/src/"*.c; do
        grep -q "${name##*/}" "$1" || missing+=" ${name##*/}"
    done
    for name in $(grep -oE '[a-z_]+\.[ch]\b' "$1" | sort -u); do
        [[ -f $work/p/src/$name ]] || missing+=" $name"
    done
    [[ -z $missing ]]
    check $? "$1 names the sources" "$missing"
}

# verifies device-42.3973
for form in arduino zephyr cmsis-pack esp-idf; do
    for more in '' "--freeze layers.0.* --offload flash:1MB"; do
        rm -rf "$work/p"
        read -ra options <<<"$more"
        run "${plan[@]}" "${options[@]}" --emit-c "$work/p" --as $form
        frozen=$(find "$work/p/src" -name frozen.c | wc -l)
        [[ $code -eq 0 && -f $work/p/src/trainer.c && ! -e $work/p/Makefile && ! -e $work/p/src/example.c &&
            $frozen -eq $((${#more} > 0)) ]] && ! grep -rq '@[A-Z]*@' "$work/p"
        check $? "$form $more" "$out$err"
        make -s -C "$work/p" -f bedplate.mk BEDPLATE="$kit" CORE=here >"$work/made" 2>&1
        [[ -f $work/p/src/bedplate.h && -f $work/p/src/here/libbedplate.a ]]
        check $? "$form: the library beside it" "$(cat "$work/made")"
        case $form in
        zephyr) listed "$work/p/zephyr/CMakeLists.txt" ;;
        esp-idf) listed "$work/p/CMakeLists.txt" ;;
        cmsis-pack) listed "$work/p/Bedplate.Trainer.pdsc" ;;
        esac
        [[ -z $more ]] || continue
        compiles "$form: gcc" gcc
        compiles "$form: clang" clang
        newlib=/usr/lib/arm-none-eabi/include
        if [[ -d $newlib ]] && command -v arm-none-eabi-gcc >/dev/null; then
            compiles "$form: Cortex-M7" arm-none-eabi-gcc -mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16
            compiles "$form: clang for Arm" clang --target=arm-none-eabi -mcpu=cortex-m7 -mthumb -isystem $newlib
            compiles "$form: rv32imc" clang --target=riscv32-unknown-elf -march=rv32imc -mabi=ilp32 -isystem $newlib
        else
            echo "skipped: arm-none-eabi-gcc is not here: $form for boards"
        fi
        [[ ! -d $work/$form ]] || rm -rf "${work:?}/$form"
        cp -r "$work/p" "$work/$form"
    done
done

# Arduino: specification of libraries (library.properties, keywords.txt, layout 1.5), and arduino-lint's rules of them.
properties=$work/arduino/library.properties
for field in name version author maintainer sentence paragraph category url architectures includes; do
    [[ $(grep -c "^$field=." "$properties") -eq 1 ]]
    check $? "library.properties: $field" "$(cat "$properties")"
done
[[ $(sed -n 's/^version=//p' "$properties") == "$version" ]] && grep -qE '^name=[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}$' "$properties" &&
    grep -qE '^category=(Display|Communication|Signal Input/Output|Sensors|Device Control|Timing|Data Storage|Data Processing|Other)$' \
        "$properties" && ! grep -qE '^name=.*[Aa]rduino' "$properties"
check $? "library.properties: their values" "$(cat "$properties")"
! grep -vqP '^[A-Za-z_0-9]+\t(KEYWORD[123]|LITERAL[12])$' "$work/arduino/keywords.txt"
check $? "keywords.txt: a name, a tab, a kind" "$(cat -A "$work/arduino/keywords.txt")"
while IFS=$'\t' read -r name _; do
    grep -rqw "$name" "$work/arduino/src" || echo "$name"
done <"$work/arduino/keywords.txt" >"$work/unknown"
[[ ! -s $work/unknown && -f $work/arduino/examples/Learn/Learn.ino ]]
check $? "keywords that are names, and a sketch in a folder of its name" "$(cat "$work/unknown")"
# The sketch as the Arduino builder compiles it: C++, with Arduino.h before it.
mkdir "$work/core"
cat >"$work/core/Arduino.h" <<'END'
#include <stdint.h>
#include <string.h>
#define A0 0
int analogRead(int pin);
struct SerialPort { void begin(long); void println(const char *); void println(double); };
extern SerialPort Serial;
END
if ! command -v c++ >/dev/null; then
    echo "skipped: c++ is not here: the sketch"
else
for standard in c++11 c++17 c++20; do
    c++ -std=$standard -Wall -Wextra -Werror -include "$work/core/Arduino.h" -I"$work/arduino/src" -x c++ \
        -c "$work/arduino/examples/Learn/Learn.ino" -o "$work/sketch.o" >"$work/made" 2>&1
    check $? "the sketch as $standard" "$(cat "$work/made")"
done
cat >"$work/core/main.cpp" <<'END'
#include "Arduino.h"
#include <stdio.h>
void setup();
void loop();
SerialPort Serial;
int analogRead(int) { static int n = 0; return n++ % 1024; }
void SerialPort::begin(long) {}
void SerialPort::println(const char *text) { printf("%s\n", text); }
void SerialPort::println(double number) { printf("%d\n", number > 0.0); }
int main() { setup(); loop(); loop(); return 0; }
END
for source in plan trainer; do
    gcc -std=c99 -O1 -I"$work/arduino/src" -c "$work/arduino/src/$source.c" -o "$work/$source.o"
done
c++ -std=c++11 -I"$work/core" "$work/core/main.cpp" "$work/sketch.o" "$work/plan.o" "$work/trainer.o" \
    -L"$work/arduino/src/here" -lbedplate -lm -o "$work/sketch" >"$work/made" 2>&1
[[ $("$work/sketch") == "ready
1
1" ]]
check $? "the sketch learns" "$(cat "$work/made")$("$work/sketch")"
fi

# Zephyr: scripts/zephyr_module.py's schema of module.yml, and Kconfig's grammar as far as these lines go.
module=$work/zephyr/zephyr/module.yml
[[ $(grep -c '^name: [a-z_]*$' "$module") -eq 1 ]] && grep -q '^build:$' "$module" && grep -q '^  cmake: zephyr$' "$module" &&
    grep -q '^  kconfig: zephyr/Kconfig$' "$module" && ! grep -qvE '^(name|build|  cmake|  kconfig):' "$module"
check $? "module.yml" "$(cat "$module")"
! grep -qvP '^(config [A-Z_]+|\t(bool|string) ".*"|\tselect [A-Z_]+( if [A-Z_]+)?|\tdefault ".*"|\tdepends on [A-Z_]+|\thelp|\t  .*|)$' \
    "$work/zephyr/zephyr/Kconfig"
check $? "Kconfig" "$(cat "$work/zephyr/zephyr/Kconfig")"
# CMake runs both files with functions of the two systems that look for the files.
if command -v cmake >/dev/null; then
    cat >"$work/stand.cmake" <<'END'
function(there)
  foreach(file ${ARGV})
    if(NOT EXISTS ${file})
      message(FATAL_ERROR "${file} is not there")
    endif()
  endforeach()
endfunction()
function(zephyr_include_directories)
  there(${ARGV})
endfunction()
function(zephyr_library_named name)
endfunction()
function(zephyr_library_sources)
  there(${ARGV})
endfunction()
function(zephyr_library_compile_options)
endfunction()
function(zephyr_library_import name file)
  there(${file})
endfunction()
function(idf_component_register)
  cmake_parse_arguments(IDF "" "" "SRCS;INCLUDE_DIRS" ${ARGV})
  foreach(file ${IDF_SRCS} ${IDF_INCLUDE_DIRS})
    there(${CMAKE_CURRENT_LIST_DIR}/${file})
  endforeach()
endfunction()
function(target_compile_options)
endfunction()
function(target_link_libraries)
endfunction()
function(add_prebuilt_library name file)
  there(${CMAKE_CURRENT_LIST_DIR}/${file})
endfunction()
END
    for file in zephyr/zephyr/CMakeLists.txt esp-idf/CMakeLists.txt; do
        printf 'include(%s)\nset(CONFIG_BEDPLATE_TRAINER 1)\nset(CONFIG_BEDPLATE_TRAINER_CORE here)\ninclude(%s)\n' \
            "$work/stand.cmake" "$work/$file" >"$work/run.cmake"
        cmake -DBEDPLATE_CORE=here -P "$work/run.cmake" >"$work/made" 2>&1
        check $? "$file" "$(cat "$work/made")"
    done
else
    echo "skipped: cmake is not here: the packages' own files"
fi

# ESP-IDF: idf_component.yml has a version and the least IDF.
manifest=$work/esp-idf/idf_component.yml
grep -q "^version: \"$version\"$" "$manifest" && grep -q '^  idf: ">=5.0"$' "$manifest" &&
    ! grep -qvE '^(version|description|url|dependencies|  idf):' "$manifest"
check $? "idf_component.yml" "$(cat "$manifest")"

# CMSIS: the elements that PACK.xsd 1.7.7 requires, in its order, and files that are there (packchk's M323, M322).
python3 - "$work/cmsis-pack" >"$work/made" 2>&1 <<'END'
import os, sys
import xml.etree.ElementTree as tree
folder = sys.argv[1]
root = tree.parse(folder + '/Bedplate.Trainer.pdsc').getroot()
assert root.tag == 'package' and root.get('schemaVersion') == '1.7.7'
order = [child.tag for child in root]
assert order[:6] == ['vendor', 'name', 'description', 'url', 'license', 'releases'], order
assert root.find('url').text.endswith('/')
assert root.find('vendor').text + '.' + root.find('name').text == 'Bedplate.Trainer'
assert os.path.exists(os.path.join(folder, root.find('license').text))
release = root.find('releases/release')
assert release.get('version') and release.text
conditions = {c.get('id') for c in root.iter('condition')}
for component in root.iter('component'):
    assert component.get('Cclass') and component.get('Cgroup') and component.get('Cversion')
    assert component.get('condition') in conditions
    for file in component.iter('file'):
        assert os.path.exists(os.path.join(folder, file.get('name'))), file.get('name')
        assert file.get('category') in ('doc', 'include', 'header', 'source')
END
check $? "Bedplate.Trainer.pdsc" "$(cat "$work/made")"
expect 2 '--as' "${plan[@]}" --emit-c "$work/x" --as platformio
finish

# SPDX-License-Identifier: MIT
# What an interactive zsh or fish offers: `offered LINE..` of the test that includes this prints the words for
# the end of each line as one line, in order.
. "$(dirname "$0")/../lib.sh"

# shell_is_here NAME: where it is not, the test is skipped.
shell_is_here() {
    command -v "$1" >/dev/null || {
        echo "skipped: no $1 on this machine"
        exit 77
    }
}

# All lines in one shell: the words that are right, a bar, the line.
shell_cases() {
    local at=0 number=0 cases=() lines=() found
    while IFS= read -r line; do
        cases+=("$line")
        lines+=("bedplate ${line#*|}")
    done <<'END'
plan|p
tokenize train|t
--learning-rate|train --learn
--learning-rate|train --bf16 --learn
--learning-rate|train --optim adamw --learn
cosine cosine_with_min_lr cosine_with_restarts|train --lr-scheduler-type cos
tiny-arcee tiny-bert tiny-cnn tiny-cohere tiny-cohere2 tiny-deberta tiny-distilbert tiny-electra tiny-ernie4-5 tiny-exaone4 tiny-gemma tiny-gemma2 tiny-gemma3-text tiny-glm tiny-glm4 tiny-glm4-moe tiny-gpt-oss tiny-granite tiny-granite4 tiny-gru tiny-hunyuan tiny-llama tiny-lstm tiny-mistral tiny-mixtral tiny-mlp tiny-modernbert tiny-mpnet tiny-neox tiny-olmo2 tiny-olmo3 tiny-olmoe tiny-phi3 tiny-qwen3 tiny-qwen3-moe tiny-qwen3-next tiny-qwen3.5 tiny-qwen3.5-moe tiny-roberta tiny-seed-oss tiny-smollm3 tiny-starcoder2|plan --model tiny-
auto gguf hf llmc state|export --format 
adama exact none previous-norm|train --gradient-release 
fabric gemm optim step|bench 
bash fish zsh|completion 
text.txt|train --data te
models|train --output-dir mod
--capacity --config --help --json --print-options|arena --
END
    cp "$work/.out" "$work/script"
    mkdir "$work/here" && cd "$work/here" && mkdir models && touch text.txt other.csv
    found=$(offered "${lines[@]}" | tr -d /) # fish says that a folder is one
    cd - >/dev/null || exit 1
    for at in "${!cases[@]}"; do
        number=$((at + 1))
        [[ $(sed -n "${number}p" <<<"$found") == "${cases[at]%%|*}" ]]
        check $? "completing '${lines[at]}'" "$(sed -n "${number}p" <<<"$found")"
    done
}

# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by boards.sh and release_digests.sh: small models, data as their examples make it up, and how the five of
# release.digests are trained. $work is the caller's folder.

# make_rows NUMBERS CLASSES: 64 rows.
make_rows() {
    awk -v n="$1" -v classes="$2" 'BEGIN { for (j = 0; j < n; j++) printf "f%d,", j; print "label"
        for (i = 0; i < 64; i++) { for (j = 0; j < n; j++) printf "%.6f,", ((i * n + j) * 7919 % 257 - 128) / 64
            print i % classes } }'
}

# The models of the trainers, and data as their examples make it up.
make_inputs() {
    mkdir -p "$work"/{gpt,mlp,gru,cnn,kws,anomaly,resnet,llama,decoder}-model
    echo '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "vocab_size": 128,
        "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}' >"$work/gpt-model/config.json"
    cp -r "$work/gpt-model" "$work/gpt8-model"
    echo '{"model_type": "mlp", "input_size": 16, "hidden_sizes": [32, 32], "num_labels": 4}' \
        >"$work/mlp-model/config.json"
    echo '{"model_type": "rnn", "cell": "gru", "hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 128,
        "max_position_embeddings": 64}' >"$work/gru-model/config.json"
    echo '{"model_type": "cnn", "image_height": 8, "image_width": 8, "num_channels": 1, "num_labels": 3,
        "layers": ["conv 4 3", "separable 8 3 stride 2", "basic 8", "mean-pool all"]}' >"$work/cnn-model/config.json"
    # Grouped heads, gated products, adapters on a base in eight bits.
    echo '{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 32,
        "tie_word_embeddings": true}' >"$work/decoder-model/config.json"
    # MLPerf Tiny's keyword spotting, a layer for each convolution.
    local pairs='"depthwise 3 padding same", "conv 64 1"'
    echo '{"model_type": "cnn", "image_height": 49, "image_width": 10, "num_channels": 1, "num_labels": 12,
        "layers": ["conv 64 10x4 stride 2 padding same", '"$pairs, $pairs, $pairs, $pairs"', "mean-pool all"]}' \
        >"$work/kws-model/config.json"
    cp -r "$work/kws-model" "$work/kwslow-model"
    # Its anomaly detection.
    local dense='"dense 128", "dense 128", "dense 128", "dense 128"'
    echo '{"model_type": "cnn", "problem_type": "reconstruction", "image_height": 1, "image_width": 1,
        "num_channels": 640, "layers": ['"$dense"', "dense 8", '"$dense"']}' >"$work/anomaly-model/config.json"
    cp -r "$work/anomaly-model" "$work/anomalylow-model"
    # Its image classification.
    echo '{"model_type": "cnn", "image_height": 32, "image_width": 32, "num_channels": 3, "num_labels": 10,
        "layers": ["conv 16 3 padding same", "basic 16 padding same", "basic 32 stride 2 padding same",
        "basic 64 stride 2 padding same", "mean-pool all"]}' \
        >"$work/resnet-model/config.json"
    # A Llama of 260,032 parameters.
    echo '{"model_type": "llama", "hidden_size": 64, "intermediate_size": 172, "num_hidden_layers": 5,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 512, "max_position_embeddings": 512,
        "tie_word_embeddings": true}' >"$work/llama-model/config.json"
    cp -r "$work/llama-model" "$work/llama8-model"
    sed -n 's/^    "\(.*\)"[;]*$/\1/p' tools/embed/poem.h | tr -d '\n' | sed 's/\\n/\n/g' >"$work/text"
    make_rows 16 4 >"$work/rows.csv"
    make_rows 64 3 >"$work/images.csv"
    make_rows 490 12 >"$work/mfcc.csv"
    make_rows 3072 10 >"$work/pictures.csv"
    make_rows 640 1 | sed 's/,[^,]*$//' >"$work/mel.csv"
}

# The five models of release.digests: the options of each, and its data.
# shellcheck disable=SC2034
{
    gpt=(--per-device-train-batch-size 4 --max-seq-length 32 --learning-rate 3e-3)
    mlp=(--per-device-train-batch-size 8 --optim sgd --learning-rate 1e-2)
    gru=(--per-device-train-batch-size 2 --max-seq-length 32 --learning-rate 3e-3 --gradient-accumulation-steps 2)
    cnn=(--per-device-train-batch-size 4 --optim sgd --learning-rate 1e-2)
    decoder=(--per-device-train-batch-size 2 --max-seq-length 32 --learning-rate 3e-3 --lora-r 4 --load-in-8bit)
}

# data_of NAME: the file that it reads.
data_of() {
    case $1 in
    mlp) echo "$work/rows.csv" ;;
    cnn) echo "$work/images.csv" ;;
    *) echo "$work/text" ;;
    esac
}

# digest_of_release NAME DEVICE: what 1,000 steps of a model leave, of the table.
digest_of_release() {
    awk -v name="$1" -v device="$2" '$1 == name && $2 == device { print $3 }' tests/variants/release.digests
}

#!/bin/bash
# SPDX-License-Identifier: MIT
# What users of other programs type: each name is taken, and gives the configuration that our own
# name gives, or is answered with what comes nearest.
. "$(dirname "$0")/../lib.sh"

# same COMMAND WORDS OURS: both give the same resolved options.
same() {
    local command=$1 theirs
    # shellcheck disable=SC2086
    eval "run $command $2 --print-options"
    theirs=$out
    [[ $code -eq 0 ]]
    check $? "$command $2 is taken" "$err"
    eval "run $command $3 --print-options"
    [[ $code -eq 0 && -n $out && $theirs == "$out" ]]
    check $? "$command $2 is $3" "$err$(diff <(echo "$theirs") <(echo "$out"))"
}

names=0
while IFS='|' read -r command words wanted; do
    [[ -n $command && $command != \#* ]] || continue
    names=$((names + 1))
    if [[ $wanted == '? '* ]]; then
        eval "run $command $words"
        [[ $code -eq 2 ]] && grep -qE -- "${wanted#? }" <<<"$err"
        check $? "$command $words is answered with ${wanted#? } (exit $code)" "$err"
    else
        same "$command" "$words" "$wanted"
    fi
done <<'END'
# 2026-11-30: lines of TRL, axolotl, torchtune, llama.cpp, mlx-lm and others with the values that their users give.
train|--task grpo --reward_funcs number think|--task grpo --reward number --reward think
train|--task grpo --reward number think --reward_weights 1.0 0.5|--task grpo --reward number --reward think --reward-weights 1.0,0.5
train|--freeze 'h.0.*' 'h.1.*'|--freeze 'h.0.*' --freeze 'h.1.*'
train|--max_grad_norm None|--max-grad-norm 0
train|--max_grad_norm null|--max-grad-norm 0
train|--max_grad_norm 0.3|--max-grad-norm 0.3
train|--save_total_limit None|? expected a number such as 8, or leave the option out
train|--neftune_noise_alpha None|? or leave the option out
train|--warmup_steps null|? or leave the option out
train|--chat_template None|? no value: found "None", expected .*, or leave the option out
train|--resume_from_checkpoint None|? no value: found "None"
train|--lora_r 8 --lora_target_modules None|? no value: found "None"
train|--adam_betas '(0.9, 0.95)'|? --adam-beta1 and --adam-beta2
train|--lr_warmup_iters 10|--warmup-steps 10
train|--init_method_std 0.02|? config.json
generate|--message hi|--prompt hi
eval|--chunks 4|? all rows of --data
eval|--all-logits|? all rows of --data
train|--fp16=auto|? name the precision: --bf16, --fp16 or --fp32
train|--tf32 auto|? --tf32 true or false
train|--bf16 False|--bf16=false
train|--per_device_train_batch_size auto|? with --arena BYTES and without this option
train|--gradient_accumulation_steps auto|? with --arena BYTES and without this option
train|--report_to tensorboard wandb|? wandb: an argument that is not expected: TensorBoard files can be synced
train|config.yml|? config.yml: a file without its option: expected --config FILE, with lines
train|--output-dir o run.yaml|? run.yaml: a file without its option
train|optimizer.lr=1e-4|? an option without its dashes: expected --lr=1e-4
train|dataset.packed=True|? an option without its dashes: expected --packed=True
train|tokenizer.max_seq_len=512|? an option without its dashes: expected --max_seq_len=512
train|lr_scheduler.num_warmup_steps=100|? an option without its dashes: expected --num_warmup_steps=100
train|checkpointer.checkpoint_dir=dir|? an option without its dashes: expected --checkpoint_dir=dir
train|--task ppo|? the nearest is --task grpo
train|--task rloo|? the nearest is --task grpo
train|--task dapo|? --task grpo with --loss-type dapo
train|--task cpo|? the nearest is --task orpo or simpo
train|--task reward|? reward models are not trained: --task dpo
train|--task rm|? reward models are not trained
train|--gamma_beta_ratio 0.5|? --simpo-gamma F is this ratio times --beta
train|--unfrozen_parameters '["^lm_head.weight$"]'|? --trainable GLOB .* not with regular expressions
train|--lora-layers 8|? --layers-to-transform 0,1,.. names layers; mlx-lm counts the last ones
train|--ignore_pad_token_for_loss|? padding is never trained
train|--mlm|? --task masked-lm
train|--enable_liger_kernel|? --loss-chunk-rows
train|--train_on_prompt|--loss-on all
train|--train_on_prompt False|--loss-on assistant
train|--source_max_len 64 --target_max_len 32|--max-source-length 64 --max-seq-length 32
train|--max_memory_mb 8000|? --arena 8GB
train|--max_memory_MB 8000|? --arena 8GB
train|--kl_target 0.1|? --beta F
train|--learning_rate_warmup_ratio 0.1|--warmup-ratio 0.1
train|--accum 8|--gradient-accumulation-steps 8
train|--trainer.total_epochs 2|? the nearest is --total-epochs \(--num-train-epochs\)
train|--total_epochs 2|--num-train-epochs 2
train|--full|? without --lora-r all weights are trained
train|--eval|? --eval-data FILE, or --validation-split F
train|--stop_after 100|--stop-at-step 100
train|--weights tiny|--model tiny
train|--arch llama|? config.json names its type
train|--file a.txt|--data a.txt
plan|--tp 2|? --shard parameters
plan|--dp 2 --gradient-accumulation-steps 2|--ranks 2 --gradient-accumulation-steps 2
plan|--kv_cache_dtype fp8|? the type of activations
plan|--library_name transformers|? leave it out
plan|--file a.txt|--data a.txt
embed|-p text|? --data FILE, or --data - for standard input
embed|--embd-output-format json|? FILE.npy or FILE.jsonl
bench|step -m tiny|step --model tiny
bench|-m tiny -p 512 -n 128|? `bench step` measures a training step
export|--vocab-only|? with its tokenizer
export|--format safetensors|--format hf
export|--format onnx|? not implemented: hf, gguf or llmc
export|--export_dir y|--to y
export|--mlx-path y|--to y
export|--export_quantization_bit 4|? --save-quant TYPE
export|--q4_k_m|? --save-quant TYPE
export|--ftype q8_0|? --save-quant TYPE
export|--export_size 2|? one file is written
export|--de-quantize|? --dtype fp32, bf16 or fp16 writes floats
# transformers: TrainingArguments and its example scripts
train|--model_name_or_path tiny|--model tiny
train|--pretrained_model_name_or_path tiny|--model tiny
train|--tokenizer_name dir|--tokenizer dir
train|--train_file a.txt b.txt --bf16|--data a.txt b.txt --bf16
train|--validation_file a.txt|--eval-data a.txt
train|--validation_split_percentage 5|--validation-split 0.05
train|--text_column_name body|--text-column body
train|--label_column_name class|--label-column class
train|--block_size 64|--max-seq-length 64
train|--per_gpu_train_batch_size 4|--per-device-train-batch-size 4
train|--batch_size 4|--per-device-train-batch-size 4
train|--bf16 true|--bf16
train|--bf16 True --tf32 1|--bf16 --tf32
train|--bf16=True|--bf16
train|--bf16=False|--bf16=false
train|--no_bf16|--bf16=false
train|--fp16 yes|--fp16
train|--gradient_checkpointing|--gradient-checkpointing full
train|--gradient_checkpointing True --bf16|--gradient-checkpointing full --bf16
train|--gradient_checkpointing=False|--gradient-checkpointing none
train|--no_gradient_checkpointing|--gradient-checkpointing none
train|--activation_checkpointing true|--gradient-checkpointing full
train|--lr 1e-4|--learning-rate 1e-4
train|--evaluation_strategy epoch|--eval-strategy epoch
train|--use_cpu|--device host
train|--use_cpu True|--device host
train|--no_cuda|--device host
train|--device cpu|--device host
train|--disable_tqdm true|--quiet
train|--optim adamw_torch|--optim adamw
train|--optim adamw_torch_fused|--optim adamw
train|--optim paged_adamw_8bit|--optim adamw_8bit
train|--optim paged_adamw_32bit|--optim adamw
train|--optim adamw_bnb_8bit|--optim adamw_8bit
train|--optim adamw_torch_4bit|--optim adamw_4bit
train|--optim paged_lion_8bit|--optim lion_8bit
train|--optim lion_32bit|--optim lion
train|--optim rmsprop_bnb_8bit|--optim rmsprop_8bit
train|--optim paged_ademamix_8bit|--optim ademamix_8bit
train|--train_sampling_strategy group_by_length|--group-by-length
train|--resume_from_checkpoint True|--resume-from-checkpoint true
train|--load_best_model_at_end True --greater_is_better False|--load-best-model-at-end --greater-is-better=false
train|--report_to all|--report-to tensorboard
train|--lr_scheduler_kwargs '{"power": 2}' --lr_scheduler_type polynomial|--lr-scheduler-kwargs '{"power": 2}' --lr-scheduler-type polynomial
train|--arena 4gb|--arena 4e9
train|--arena 4GIB|--arena 4GiB
train|--arena '4 mb'|--arena 4MB
train|--eval_steps 0.5 --save_steps 0.25|--eval-steps 5e-1 --save-steps 2.5e-1
train|--random_state 3|--seed 3
train|--wandb|? --report-to tensorboard
train|--report_to wandb|? TensorBoard files can be synced
train|--run_name x|? --output-dir
train|--fsdp full_shard|? see --shard
train|--deepspeed zero3.json|? see --shard .*--offload
train|--push_to_hub|? hf upload
train|--hub_model_id me/model|? hf upload
train|--dataloader_num_workers 4|? --threads
train|--num_workers 4|? --threads
train|--torch_compile true|? --kernels
train|--auto_find_batch_size|? plan --max-batch
train|--do_train|? leave it out
train|--do_eval|? --eval-data FILE, or --validation-split
train|--local_rank 0|? launcher
train|--fp8|? --weight-dtype fp8
train|--use_liger_kernel true|? --loss-chunk-rows
train|--attn_implementation flash_attention_2|? leave it out
train|--dataset_name imdb|? hf download
train|--trust_remote_code|? leave it out
train|--full_determinism|? every run is deterministic
train|--logging_strategy epoch|? --logging-steps
train|--remove_unused_columns False|? --text-column and --label-column
train|--max_train_samples 100|? --max-steps
train|--gpus 2|? --fabric and --shard
train|--nproc_per_node 2|? torchrun
train|--ddp_timeout 100|? --step-limit
train|--optim galore_adamw|? the nearest is apollo
train|--optim lomo|? sgd with --gradient-release
train|--optim adamw_8bti|? the nearest is adamw_8bit
train|--lr_scheduler_type reduce_lr_on_plateau|? the nearest is cosine
train|--lr_scheduler_type cosine_warmup_with_min_lr|? cosine_with_min_lr
train|--train_batch_size 32|? --gradient-accumulation-steps
# PEFT
train|--r 8|--lora-r 8
train|--bias lora_only|--lora-bias lora_only
train|--lora_bias all|--lora-bias all
train|--lora_bias true|? PEFT's `bias` \(none, all or lora_only\); PEFT's own lora_bias
train|--lora_bias|? PEFT's own lora_bias
train|--modules_to_save classifier score|--trainable @classifier --trainable @score
train|--modules_to_save embed_tokens,lm_head|--trainable @embed_tokens --trainable @lm_head
train|--target_modules q_proj v_proj --lora_r 4|--target-modules q_proj,v_proj --lora-r 4
train|--init_lora_weights pissa|? PEFT's default
train|--target_modules '["q_proj", "v_proj"]' --lora_r 4|--target-modules q_proj,v_proj --lora-r 4
train|--target_modules q_proj, v_proj --lora_r 4|--target-modules q_proj,v_proj --lora-r 4
train|--target_modules "['q_proj','v_proj']" --lora_r 4|--target-modules q_proj,v_proj --lora-r 4
train|--rank_pattern '{"q_proj": 8}' --lora_r 4|--rank-pattern q_proj=8 --lora-r 4
train|--layers_to_transform '[0, 1]' --lora_r 4|--layers-to-transform 0,1 --lora-r 4
train|--modules_to_save '["lm_head"]' --lora_r 4|--trainable @lm_head --lora-r 4
train|--task_type CAUSAL_LM|--task causal-lm
train|--lora_task_type TOKEN_CLS|--task token-classification
train|--task SEQ_CLS|--task classification
train|--fan_in_fan_out True|? leave it out
# TRL
train|--max_length 128|--max-seq-length 128
train|--lora_target_modules q_proj v_proj|--target-modules q_proj,v_proj
train|--dtype bfloat16|--bf16
train|--torch_dtype float16|--fp16
train|--assistant_only_loss true|--loss-on assistant
train|--completion_only_loss True|--loss-on completion
train|--dataset_text_field body|--text-column body
train|--use_bnb_nested_quant|--bnb-4bit-use-double-quant true
train|--use_peft|? --lora-r
train|--max_prompt_length 64|? --max-seq-length
train|--precompute_ref_log_probs|? leave it out
train|--reference_free True|? simpo
# Unsloth
train|--model_name tiny|--model tiny
train|--max_seq_length 32 --load_in_4bit|--max-seq-length 32 --load-in-4bit
train|--use_gradient_checkpointing true|--gradient-checkpointing full
train|--use_gradient_checkpointing unsloth|? --offload-what checkpoints
train|--train_on_responses_only|--loss-on assistant
train|--full_finetuning|? without --lora-r all weights
train|--save_gguf|? export
# axolotl
train|--base_model tiny|--model tiny
train|--sequence_len 64|--max-seq-length 64
train|--sample_packing true|--packing
train|--val_set_size 0.1|--validation-split 0.1
train|--micro_batch_size 3|--per-device-train-batch-size 3
train|--num_epochs 2|--num-train-epochs 2
train|--optimizer adamw_bnb_8bit|--optim adamw_8bit
train|--lr_scheduler cosine|--lr-scheduler-type cosine
train|--train_on_inputs false|--loss-on assistant
train|--train_on_inputs|--loss-on all
train|--lora_target_linear true|--target-modules all-linear
train|--lora_model_dir dir|--adapter dir
train|--lora_modules_to_save embed_tokens|--trainable @embed_tokens
train|--auto_resume_from_checkpoints true|--resume auto
train|--rl dpo|--task dpo
train|--eval_batch_size 2|--per-device-eval-batch-size 2
train|--flash_attention true|? leave it out
train|--wandb_project x|? TensorBoard files
train|--evals_per_epoch 4|? --eval-steps
train|--cosine_min_lr_ratio 0.1|? --min-lr
# torchtune, accelerate, lightning, nanoGPT, sentence-transformers
train|--epochs 2|--num-train-epochs 2
train|--lora_rank 8|--lora-r 8
train|--max_seq_len 64|--max-seq-length 64
train|--seq_len 64|--max-seq-length 64
train|--clip_grad_norm 0.5|--max-grad-norm 0.5
train|--log_every_n_steps 5|--logging-steps 5
train|--enable_activation_checkpointing true|--gradient-checkpointing full
train|--optimizer_in_bwd|? --gradient-release
train|--mixed_precision bf16|--bf16
train|--mixed_precision no|--fp32
train|--mixed_precision fp8|? --tape-dtype fp8
train|--accumulate_grad_batches 4|--gradient-accumulation-steps 4
train|--gradient_clip_val 1.5|--max-grad-norm 1.5
train|--max_iters 50|--max-steps 50
train|--grad_clip 2|--max-grad-norm 2
train|--warmup_iters 5|--warmup-steps 5
train|--out_dir dir|--output-dir dir
train|--eval_interval 50|--eval-steps 50
train|--beta1 0.8 --beta2 0.9|--adam-beta1 0.8 --adam-beta2 0.9
train|--weight_decay 0.1 --wd 0.1|? given twice: found --weight-decay and --wd
train|--patience 3|--early-stopping-patience 3
train|-o dir|--output-dir dir
train|--data a.txt -o dir|--data a.txt --output-dir dir
train|--dry_run|? bedplate plan
train|--overwrite|? --overwrite-output-dir
train|--cpu_offload|? --offload
plan|--batch 2 --vram 1gb|--per-device-train-batch-size 2 --arena 1GB
eval|--batch_size 4|--per-device-eval-batch-size 4
eval|--test_file a.txt|--data a.txt
embed|--batch_size 4 --normalize_embeddings true|--per-device-eval-batch-size 4 --normalize true
distill|--teacher tiny --top_k 8|--model tiny --distill-top-k 8
train|--teacher_model big|? bedplate distill
# llama.cpp and generation of transformers
generate|-m tiny -p 'a b' -n 5|--model tiny --prompt 'a b' --max-new-tokens 5
generate|--temp 0.7 --repeat-penalty 1.1|--temperature 0.7 --repetition-penalty 1.1
generate|--n-predict 9 -t 2 -s 7|--max-new-tokens 9 --threads 2 --seed 7
generate|-cnv -sys 'be brief' -c 512|--chat --system 'be brief' --context 512
generate|-r END|--stop END
generate|--max_tokens 5|--max-new-tokens 5
generate|--do_sample False|--temperature 0
generate|--do_sample True|? leave it out
generate|--num_samples 2|--num-return-sequences 2
generate|-n -1|? give a number of tokens
generate|-ngl 99|? --device cuda
generate|-f prompt.txt|? --prompt
generate|--max_length 50|? --max-new-tokens
generate|--num_beams 4|? --temperature 0
generate|--n 4|? --num-return-sequences
export|--outfile m.gguf --outtype f16|--to m.gguf --dtype fp16
export|--outtype q8_0|? --save-quant q8_0
export|--quantization_method q4_0|--save-quant q4_0
export|--merge_and_unload --lora_path dir|--merge --adapter dir
# Others that users type
train|--num_classes 3|--num-labels 3
train|--ckpt_path dir|--resume-from-checkpoint dir
train|--class_weight balanced|--class-weights balanced
train|--metric accuracy|--metric-for-best-model accuracy
train|--gradient_clip_norm 0.5|--max-grad-norm 0.5
train|--hidden_size 64|? config.json
train|--num_layers 2|? config.json
train|--vocab_size 100|? config.json
train|--rope_scaling linear|? config.json
train|--rope_theta 1e6|? config.json
train|--num_generations 8|--num-generations 8
train|--response_template x|? --loss-on assistant
train|--load_in 8bit --epoch 2|--load-in-8bit --num-train-epochs 2
train|--do_regression true|--task regression
train|--excess_length_strategy raise|--long-rows refuse
train|--excess_length_strategy drop|? never dropped
train|--importance_sampling_level sequence|? found "sequence": --loss-type gspo or luspo have ratios of whole completions; see --epsilon
train|--importance_sampling_level token|? found "token": ratios are of tokens .*: leave it out
train|--importance_sampling_level word|? no such value: found "word", expected sequence, token
train|--checkpointing_steps epoch|? --save-strategy epoch
train|--checkpointing_steps 5|--save-steps 5
train|--val_check_interval 0.25|? Lightning counts batches
train|--val_interval 5 --checkpoint_interval 7|--eval-steps 5 --save-steps 7
train|--adam-alpha 1e-3 --adam-iter 9|--learning-rate 1e-3 --max-steps 9
train|--use_vllm true|? --slots
train|--mlm_probability 0.15|? 15 %
train|--from_scratch|? random weights
generate|--antiprompt END|--stop END
generate|--early_stopping true|? no beam search: --temperature 0
generate|--threads 4 --threads-batch 4|? --threads-batch: .*--threads N is of prompts as well: leave it out
train|--early_stopping true|? --early-stopping-patience N
train|--lora-out a.gguf --checkpoint-out b.gguf|? --lora-out: .*--output-dir DIR gets adapters
train|--checkpoint-out b.gguf|? --output-dir DIR gets adapters
train|--rank_stabilized --lora_r 4|--use-rslora --lora-r 4
train|--rank_stabilized_lora true|--use-rslora
train|--rank-wq 4|? --rank-pattern
train|--normalize_advantages true|? the nearest is --scale-rewards batch
train|--reward_clip_range -1 1|? rewards are not clipped
train|--do_regression false|--task classification
generate|--json-schema x|? not constrained
generate|--xtc-probability 0.5|? --top-k
generate|--model-draft x|? drafts
# Configurations of axolotl, torchtune, TRL and llama.cpp
train|--disable_tqdm 1 --use_cpu yes|--quiet --device host
train|--optim ao_adamw_8bit|--optim adamw_8bit
train|--optim torch.optim.AdamW|--optim adamw
train|--optim dion|? found "dion": the nearest is muon
train|--optim torchao.optim.CPUOffloadOptimizer|? --offload-what states
train|--scale_rewards False|--scale-rewards none
train|--scale_rewards True|--scale-rewards group
train|--loss_type nll|? leave it out
train|--loss_type robust|? --label-smoothing F
train|--dpo_loss_type ipo|--loss-type ipo
train|--reward_funcs think_format_reward|--reward think
train|--reward_funcs accuracy_reward|? boxed and number
train|--reward_model_name_or_path judge|--reward-model judge
train|--lora_rank_pattern q=4 --lora_r 2|--rank-pattern q=4 --lora-r 2
train|--peft_layers_pattern h|--layers-pattern h
train|--lora_weights dir|--adapter dir
train|--grpo_samples 4 --kl_coeff 0.1|--num-generations 4 --beta 0.1
train|--keep_last_n_checkpoints 2 --save_every_n_steps 9|--save-total-limit 2 --save-steps 9
train|--base_model_path tiny|--model tiny
train|--top_p 0.9|? own distribution: see --temperature
train|--selective_checkpointing|? selective:NAMES
train|--layer_offloading true|? --offload-what weights
train|--field_messages turns|? --text-column
train|--roles_to_train assistant|? --loss-on assistant
train|--load_in_fp8 true|? --weight-dtype
train|--adam_beta3 0.99|? --optim-args beta3=F
train|--gpu_memory_limit 20|? --arena 20GiB
train|--num_ppo_epochs 4|? --num-iterations
train|--vf_coef 0.1|? --task grpo
plan|--gpu_memory 8gb|--arena 8GB
eval|--output_path x|? --predictions FILE
eval|--limit 10|? --validation-split
embed|--truncate_dim 64|? the model's width
export|--save_directory dir|--to dir
export|--max_shard_size 5GB|? safetensors is the one format
generate|-dev cuda|--device cuda
generate|-ctk q8_0|? memory is planned
generate|-np 2|? --num-return-sequences
generate|-st|? --chat
generate|--system-prompt-file f|? --system
generate|--list-devices|? bedplate devices
generate|--seed -1|? give a number
generate|-s -1|? give a number
generate|--port 8080|? there is no server
generate|--embeddings|? bedplate embed
generate|--max-model-len 64|--context 64
generate|--no-warmup|? nothing is warmed up
generate|-ub 512|? in one piece
# Near misses, and options of other commands
train|--lerning_rate 1|? the nearest is --learning-rate
train|--batchsize 4|? the nearest is --batch-size \(--per-device-train-batch-size\)
train|--wanbd|? the nearest is --wandb \(TensorBoard
train|--max-new-tokens 5|? an option of other commands: expected generate, found train
generate|--data x|? an option of other commands: expected plan, train
train|-z 3|? -z: unknown option
# Values that mean something else there
train|--eval_steps 1.5|? a whole number, or below 1 a share
train|--seed -1|? expected 0 or more
train|--dtype int4|? no such value: found "int4", expected bf16
train|--bits 3|? expected 4, 8
train|--bf16 auto|? --bf16: found "auto": name the precision
train|--bf16 --max-steps -1 maybe|? maybe: an argument that is not expected
train|batch_size=4|? batch_size=4: an option without its dashes: expected --batch_size=4
train|--dtype None|? name the precision
train|--rl ipo|? --loss-type ipo
train|--label_pad_token_id -100|? leave it out
train|--quant 4 --lora_r 4|--load-in-4bit --lora-r 4
train|-f a.txt -c 64 -wd 0.1 -epochs 2 -lr-min 1e-6|--data a.txt --max-seq-length 64 --weight-decay 0.1 --num-train-epochs 2 --min-lr 1e-6
train|-opt adamw -val-split 0.1 -dev none|--optim adamw --validation-split 0.1 --device host
train|--no_bf16=maybe|? expected true or false
train|--bf16 --no_bf16|? given twice
train|--use_cpu --device cuda|? given twice: found --use-cpu and --device
train|--device host --cuda|? both are --device
# LLaMA-Factory, ms-swift, OpenRLHF
train|--stage sft|--task causal-lm
train|--stage pt|--task causal-lm
train|--stage dpo|--task dpo
train|--stage rm|? --task regression
train|--stage ppo|? --task grpo
train|--rlhf_type kto|--task kto
train|--train_type lora|? --lora-r R
train|--tuner_type full|? --lora-r R
train|--template qwen|? --chat-template
train|--pref_loss orpo|? --task orpo
train|--pref_loss simpo|? --task simpo
train|--pref_loss ipo|--loss-type ipo
train|--pref_ftx 0.1|? --task orpo
train|--pref_beta 0.2|--beta 0.2
train|--double_quantization True|--bnb-4bit-use-double-quant
train|--plot_loss True|? bedplate report
train|--val_size 0.1|--validation-split 0.1
train|--split_dataset_ratio 0.01|--validation-split 0.01
train|--create_new_adapter True|? without --adapter
train|--upcast_layernorm True|? norms run in fp32
train|--mask_history True|--loss-on completion
train|--mask_history False|--loss-on assistant
train|--neat_packing True|--packing
train|--mix_strategy concat|? --data-weights
train|--use_badam True|? --optim
train|--use_galore True|? --optim
train|--use_muon|? --optim names .*muon
train|--use_adam_mini|? --optim names .*adam_mini
train|--use_llama_pro True|? not implemented
train|--pissa_init True|? lora_B at 0
train|--freeze_trainable_layers 2|? --freeze GLOB
train|--freeze_vision_tower True|? --freeze GLOB
train|--image_max_pixels 262144|? preprocessor_config.json
train|--infer_backend vllm|? bedplate generate
train|--export_dir x|? bedplate export
train|--tokenized_path x|? bedplate tokenize
train|--lazy_tokenize True|? bedplate tokenize
train|--compute_accuracy True|--token-accuracy
train|--split_special_tokens True|? tokenizer's files
train|--disable_gradient_checkpointing|--gradient-checkpointing none
train|--disable_gradient_checkpointing False|--gradient-checkpointing full
train|--swanlab_project x|? --report-to tensorboard
train|--lorap_lr_ratio 16|--loraplus-lr-ratio 16
train|--target_regex x|? --target-modules
train|--quant_bits 4|--load-in-4bit
train|--quant_method bnb|? --load-in-4bit
train|--quantization_method bnb|? --load-in-4bit
train|--use_hf true|? hf download
train|--attn_impl flash_attn|? leave it out
train|--sequence_parallel_size 2|--sequence-ranks 2
train|--context_parallel_size 2|--sequence-ranks 2
train|--ring_attn_size 2|--sequence-ranks 2
train|--context_parallel_degree 2|? --sequence-ranks
train|--pretrain tiny|--model tiny
train|--micro_train_batch_size 2|--per-device-train-batch-size 2
train|--input_key question|? --text-column
train|--apply_chat_template|? --chat-template
train|--system hi|? rows with messages
train|--adam_offload|? --offload-what states
train|--offload_optimizer_device cpu|? --offload-what states
train|--actor_learning_rate 5e-7|--learning-rate 5e-7
train|--critic_learning_rate 9e-6|? --task grpo
train|--init_kl_coef 0.01|--beta 0.01
train|--rollout_batch_size 128|? --num-generations
# names with groups, as torchtune, LitGPT, verl and axolotl have them
train|--optimizer.lr 2e-5|? nearest is --lr \(--learning-rate\)
train|--dataset.packed=True|? nearest is --packed \(--packing\)
train|--checkpointer.output_dir o|? nearest is --output-dir
train|--model.lora_rank 8|? nearest is --lora-rank \(--lora-r\)
train|--train.max_seq_length 512|? nearest is --max-seq-length
train|--data.train_files x|? nearest is --train-files \(--data\)
train|--trainer.total_epochs 3|? unknown option
train|--special_tokens.pad_token x|? tokenizer's files
train|--gradient_checkpointing_kwargs.use_reentrant false|? leave it out
# Megatron, fairseq, timm, Lightning, LitGPT, nanoGPT, mlx-lm, Keras, accelerate
train|--train-iters 100|--max-steps 100
train|--max-update 100|--max-steps 100
train|--total-num-update 100|? --max-steps
train|--lr-warmup-fraction 0.01|--warmup-ratio 0.01
train|--recompute-granularity full|--gradient-checkpointing full
train|--recompute-granularity selective|? selective:NAMES
train|--recompute-activations|? --gradient-checkpointing
train|--use-distributed-optimizer|? --shard optimizer
train|--tensor-model-parallel-size 2|? --shard parameters
train|--pipeline-model-parallel-size 2|? --shard parameters
train|--update-freq 4|--gradient-accumulation-steps 4
train|--warmup-updates 40|--warmup-steps 40
train|--smoothing 0.1|--label-smoothing-factor 0.1
train|--aa rand-m9|? --random-crop
train|--color-jitter 0.4|? --random-crop
train|--reprob 0.25|? --random-crop
train|--drop-path 0.1|? --dropout
train|--model-ema|? schedule_free_adamw
train|--input-size 224|? preprocessor_config.json
train|--sched cosine|--lr-scheduler-type cosine
train|--cooldown-epochs 10|? --lr-scheduler
train|--pretrained|? --model DIR
train|--pin-mem|? leave it out
train|--layer-decay 0.75|? --param-override
train|--clip-mode norm|? --max-grad-norm
train|--accelerator cpu|--device host
train|--accelerator gpu|--device cuda
train|--accelerator tpu|? TPUs are not supported
train|--strategy ddp|? --fabric and --shard
train|--limit_train_batches 100|? --max-steps
train|--fast_dev_run|? --max-steps
train|--eval_iters 200|? --eval-data
train|--n_layer 6|? config.json
train|--n_embd 384|? config.json
train|--steps-per-eval 100|--eval-steps 100
train|--steps-per-report 10|--logging-steps 10
train|--fine-tune-type dora|? --lora-r R
train|--grad-checkpoint|--gradient-checkpointing full
train|--resume-adapter-file x|? --adapter DIR
train|--lora_query true|? --target-modules
train|--callbacks x|? --early-stopping-patience
train|--steps_per_epoch 10|? --max-steps
train|--evaluator x|? leave it out
train|--query_prompt x|? --prompt-name
train|--nvme_path /tmp|? --offload file:PATH:BYTES
train|--main_process_port 29500|? launcher
train|--rdzv_endpoint x|? launcher
# habit
train|--bs 4|--per-device-train-batch-size 4
train|--bsz 4|--per-device-train-batch-size 4
eval|--bs 4|--per-device-eval-batch-size 4
train|--nepochs 2|--num-train-epochs 2
train|-e 2|--num-train-epochs 2
train|--budget 4GB|--arena 4GB
plan|--mem 4GB|--arena 4GB
plan|--seq 64|--max-seq-length 64
train|--logdir x|--logging-dir x
train|--tb|--report-to tensorboard
train|--tag x|? --output-dir
train|--train-size 0.8|? --validation-split
train|--test x|? bedplate eval
eval|--test x|--data x
eval|-f x|--data x
train|-d x|--data x
train|-y|? nothing is asked
plan|--estimate|? a plan is exact
train|--optim AdamW|--optim adamw
train|--optimizer Lion|--optim lion
train|--resume last|--resume
train|--resume best|? newest checkpoint
train|--task summarization|--task causal-lm
train|--task seq2seq|--task causal-lm
generate|--length 32|? --max-new-tokens
generate|--penalty 1.1|--repetition-penalty 1.1
generate|--adapter-scale 0.5|? --lora-alpha
generate|--eos x|? tokenizer's files
generate|--use_cache True|? the cache is always used
generate|-e|? escapes are the shell's
eval|--lora a|? --adapter takes adapters
export|--lora a|? --adapter takes adapters
eval|--confusion-matrix|? --predictions FILE
eval|--ppl-stride 512|? prints the perplexity
eval|--model_args pretrained=x|? --model DIR
embed|--pooling last_token|--pooling lasttoken
embed|--pooling mean_tokens|--pooling mean
embed|--pooling max|? the nearest is mean
embed|--prefix x|? --prompt-name
embed|--dim 128|? cut the vectors
embed|--embd-normalize 2|? --normalize
embed|--format json|? FILE.npy or FILE.jsonl
export|--out x|--to x
export|--quant q8_0|--save-quant q8_0
export|--quantization q4_k_m|? --save-quant q4_k packs
export|--gguf|? --to NAME.gguf
export|--fp16|? --dtype fp16
export|--split-max-size 2G|? leave it out
import|--output y|--to y
import|--input x.gguf|--from x.gguf
import|--gguf x.gguf|--from x.gguf
END
[[ $names -ge 220 ]]
check $? "$names names were typed"

# Every field of transformers 5's TrainingArguments, of PEFT's LoraConfig and of TRL's SFTConfig,
# DPOConfig and ModelConfig is known, or answered.
for name in output_dir per_device_train_batch_size num_train_epochs max_steps learning_rate lr_scheduler_type \
    lr_scheduler_kwargs warmup_steps optim optim_args weight_decay adam_beta1 adam_beta2 adam_epsilon \
    optim_target_modules gradient_accumulation_steps average_tokens_across_devices max_grad_norm \
    label_smoothing_factor bf16 fp16 bf16_full_eval fp16_full_eval tf32 activation_checkpointing \
    activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs torch_compile \
    torch_compile_backend torch_compile_mode use_liger_kernel liger_kernel_config use_cache neftune_noise_alpha \
    torch_empty_cache_steps auto_find_batch_size logging_strategy logging_steps logging_first_step \
    log_on_each_node logging_nan_inf_filter include_num_input_tokens_seen log_level log_level_replica \
    disable_tqdm report_to run_name project trackio_space_id trackio_bucket_id trackio_static_space_id \
    eval_strategy eval_steps eval_delay per_device_eval_batch_size prediction_loss_only eval_on_start \
    eval_do_concat_batches eval_use_gather_object eval_accumulation_steps include_for_metrics batch_eval_metrics \
    save_only_model save_strategy save_steps save_on_each_node save_total_limit enable_jit_checkpoint push_to_hub \
    hub_token hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision load_best_model_at_end \
    metric_for_best_model greater_is_better ignore_data_skip restore_callback_states_from_checkpoint \
    full_determinism seed data_seed use_cpu accelerator_config parallelism_config dataloader_drop_last \
    dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor \
    dataloader_multiprocessing_context dataloader_in_order remove_unused_columns label_names \
    train_sampling_strategy length_column_name ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers \
    ddp_static_graph ddp_backend ddp_timeout fsdp fsdp_config deepspeed debug skip_memory_metrics do_train do_eval \
    do_predict resume_from_checkpoint local_rank \
    r target_modules exclude_modules lora_alpha lora_dropout fan_in_fan_out bias use_rslora modules_to_save \
    init_lora_weights layers_to_transform layers_pattern rank_pattern alpha_pattern megatron_config megatron_core \
    trainable_token_indices loftq_config eva_config corda_config lora_ga_config use_dora velora_config \
    alora_invocation_tokens use_qalora qalora_group_size monteclora_config layer_replication runtime_config \
    lora_bias target_parameters use_bdlora arrow_config kasa_config ensure_weight_tying peft_type task_type \
    inference_mode \
    model_init_kwargs trust_remote_code router_aux_loss_coef chat_template_path dataset_text_field dataset_kwargs \
    dataset_num_proc eos_token max_length truncation_mode shuffle_dataset packing packing_strategy padding_free \
    pad_to_multiple_of eval_packing completion_only_loss assistant_only_loss loss_type activation_offloading \
    pad_token disable_dropout precompute_ref_log_probs precompute_ref_batch_size loss_weights ld_alpha \
    f_divergence_type f_alpha_divergence_coef label_smoothing beta use_weighting discopop_tau sync_ref_model \
    ref_model_mixup_alpha ref_model_sync_steps model_name_or_path model_revision dtype attn_implementation use_peft \
    lora_r lora_target_modules lora_target_parameters lora_modules_to_save lora_task_type load_in_8bit load_in_4bit \
    bnb_4bit_quant_type use_bnb_nested_quant bnb_4bit_quant_storage; do
    run train "--$name=true" --print-options
    ! grep -qE 'unknown option|of other commands' <<<"$err"
    check $? "$name of transformers, PEFT or TRL" "$err"
done
# So is every field of TRL's other configurations, and what users of example scripts, axolotl, Unsloth, torchtune and
# llama.cpp type.
for name in sortish_sampler predict_with_generate generation_max_length generation_num_beams generation_config \
    llm_int8_threshold llm_int8_skip_modules llm_int8_enable_fp32_cpu_offload llm_int8_has_fp16_weight \
    bnb_4bit_compute_dtype bnb_4bit_use_double_quant bnb_4bit_quant_storage cast_lm_head_to_fp32 num_generations \
    num_generations_eval max_completion_length ds3_gather_for_generation generation_batch_size \
    steps_per_generation generation_kwargs chat_template_kwargs use_vllm vllm_mode vllm_model_impl \
    vllm_enable_sleep_mode vllm_structured_outputs_regex vllm_server_base_url vllm_server_host vllm_server_port \
    vllm_server_timeout vllm_group_port vllm_gpu_memory_utilization vllm_max_model_length \
    vllm_tensor_parallel_size num_iterations epsilon delta epsilon_high sapo_temperature_neg \
    sapo_temperature_pos vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg importance_sampling_level \
    reward_weights multi_objective_aggregation scale_rewards mask_truncated_completions top_entropy_quantile \
    entropy_coef use_adaptive_entropy entropy_coef_min entropy_coef_max entropy_coef_delta entropy_target \
    max_tool_calling_iterations vllm_importance_sampling_correction vllm_importance_sampling_mode \
    vllm_importance_sampling_clip_max vllm_importance_sampling_clip_min off_policy_mask_threshold \
    use_bias_correction_kl log_completions log_multimodal num_completions_to_print log_unique_prompts \
    log_completions_hub_repo use_transformers_continuous_batching transformers_continuous_batching_config \
    use_transformers_paged vllm_importance_sampling_cap desirable_weight undesirable_weight \
    center_rewards_coefficient max_prompt_length use_teacher_server dont_reprompt_on_self_success \
    distillation_alpha distillation_mode distillation_topk distillation_is_clip distillation_add_tail \
    distillation_weight teacher_model_kind teacher_update_rate teacher_sync_steps max_reprompt_len \
    use_successful_as_teacher success_reward_threshold reprompt_template solution_template feedback_template \
    include_environment_feedback environment_feedback_only_without_solution remove_thinking_from_demonstration \
    diagnostics_warning_interval diagnostics_flat_tolerance reward_model_path missing_eos_penalty padding_value \
    generate_during_eval is_encoder_decoder cpo_alpha simpo_gamma alpha fork_threshold_tokens request_timeout \
    weight_sync_timeout token_budget max_inflight_tasks max_staleness queue_maxsize weight_sync_steps \
    heartbeat_stale_after_s path data_dir data_files split columns fraction datasets streaming test_split_size \
    dataset_name dataset_config dataset_train_split dataset_test_split dataset_streaming ignore_bias_buffers \
    base_model_config is_llama_derived_model resize_token_embeddings_to_32x shrink_embeddings \
    embeddings_skip_upcast strict dataset_processes dataset_shard_num test_datasets rl_beta dpo_use_weighting \
    chat_template_jinja default_system_message excess_length_strategy eval_sequence_len min_sample_len \
    sample_packing_group_size sample_packing_bin_size pretraining_dataset pretraining_sample_concatenation \
    curriculum_sampling multipack_real_batches batch_flattening peft_layers_to_transform lora_fan_in_fan_out \
    peft_init_lora_weights lora_mlp_kernel lora_qkv_kernel lora_o_kernel lora_on_cpu gptq bnb_config_kwargs \
    embedding_lr embedding_lr_scale lr_quadratic_warmup eval_table_size eval_max_new_tokens \
    eval_causal_lm_metrics cosine_constant_lr_ratio lr_div_factor torchao_qat sdp_attention s2_attention \
    flex_attention added_tokens_overrides heads_k_stride ring_attn_func use_comet gc_steps hf_use_auth_token \
    dataset_keep_in_memory plugins cut_cross_entropy unsloth_lora_mlp relora_steps relora_warmup_steps \
    relora_prune_ratio relora_cpu_offload lisa_n_layers lisa_step_interval flash_optimum eager_attention trl \
    mean_resizing_embeddings tokenizer_use_fast tokenizer_legacy dp_shard_size group_by_modality_length \
    load_in_16bit fast_inference gpu_memory_utilization max_lora_rank float8_kv_cache finetune_vision_layers \
    finetune_language_layers finetune_attention_modules finetune_mlp_modules instruction_part response_part \
    conversation_extension maximum_memory_usage save_pretrained_merged raw_text_file chunk_size stride \
    offload_embedding unsloth_tiled_mlp quantize_base save_adapter_weights_only save_last_epoch_only \
    metric_logger checkpointer checkpoint_files recipe_checkpoint train_on_input column_map new_system_prompt \
    conversation_column num_output_chunks loss data_parallel_replicate_dim custom_sharded_layers ac_mode \
    ac_option skip_peft run_val_every_n_steps cudnn_deterministic_mode enable_fp8_training kd_ratio lora_out \
    lora_scaled model_base checkpoint_in checkpoint_out pattern_fn_it adam_iter adam_alpha adam_min_alpha \
    adam_decay adam_gclip adam_epsf sample_start sample_random_offsets force_reshuffle no_separate_with_eos \
    separate_with_bos include_sample_start fill_with_next_samples use_checkpointing cos_decay_steps \
    cos_decay_restart cos_decay_min enable_restart opt_past opt_delta no_flash use_flash rank_att_norm \
    rank_tok_embd rank_wq lora_a ctx ctx_size ubatch_size n_batch gpu_layers learning_rate_min decay_epochs \
    threads_batch cache_type_k cache_type_v yarn_ext_factor no_kv_offload tensor_split split_mode main_gpu numa \
    mmap check_tensors override_kv hf_repo hf_file log_file log_prefix no_warmup low_cpu_mem_usage \
    max_predict_samples line_by_line mlm_probability keep_linebreaks train_val_split image_column_name \
    image_processor_name text_column_names text_column_delimiter do_regression metric_name \
    return_entity_level_metrics task_name label_column_id question_column context_column source_prefix \
    val_max_target_length image_size patch_size norm_mean no_keep_linebreaks use_slow_tokenizer batch_sampler \
    multi_dataset_batch_sampler prompts router_mapping learning_rate_mapping ray_scope jit_mode_eval use_ipex \
    tpu_num_cores torchdynamo past_index include_inputs_for_metrics mining margin distance_metric \
    matryoshka_dims matryoshka_dim similarity_fct mini_batch_size num_cycles power decay_steps num_decay_steps \
    final_lr_factor decay final_div_factor pct_start lora_weight lora_name adapter_name target peft \
    peft_config quantization_config load_in load_in_nf4 nf4 int4 gpu_ids world_size node_rank cpus cores jobs \
    grad_accumulation checkpoint_interval keep_checkpoints val_interval valid_data dev_file dev_data test_data \
    train_dataset inputs lr_decay nesterov clip clipping grad_norm_clip attention_dropout hidden_dropout \
    freeze_embeddings unfreeze train_embeddings num_trainable_layers early_stop threshold monitor mode restore \
    ckpt checkpoint from_scratch random_init experiment tags notes log_file logfile results_dir work_dir workdir \
    benchmark apex opt_level fused flash swa lookahead augment augmentation mixup cutmix crop img_size resize \
    std n_classes classes labels label_map id2label label2id positive_label average pos_weight loss_fn \
    loss_function criterion sampler drop_last prefetch workers vocab_file merges_file max_len maxlen max_tokens \
    max_position_embeddings ctx_len context_size block truncate padding padding_side \
    activation_dtype additional_special_tokens advantage_estimator auto_wrap_policy bench_dataset \
    chosen_format chunked_cross_entropy cpu_ram_efficient_loading deepcompile do_bench_eval do_causal_lm_eval \
    dp_replicate_size dpo_norm_loss dpo_padding_free dpo_generate_during_eval drop_system_message \
    experts_implementation fake_quant_after_n_steps field_chosen final_state_dict_type fix_untrained_tokens \
    fp32_norms generation_temperature gradio_share is_mistral_derived_model jagged_restart_steps lr_groups \
    message_field_role model_quantization_config overrides_of_model_config peft_autocast_adapter_dtype \
    peft_layers_pattern peft_trainable_token_indices pose_max_context_len process_reward_model prompt_format \
    push_dataset_to_hub qat qgalore_rank quantize_moe_experts ray_num_workers recompute_layer_types \
    reinit_weights replay_buffer_size reshard_after_forward revision_of_model reward_funcs rollout_func \
    save_first_step scaling_softmax skip_prepare_dataset split_thinking state_dict_type tiled_mlp \
    tokenizer_config total_num_tokens train_on_eos train_on_eot trigger_file_path use_mlflow use_ray use_trackio \
    adapter_checkpoint base_model_path batch_size_val grpo_samples intermediate_dim keep_last_n_checkpoints \
    kl_coeff kd_loss max_generated_tokens norm_eps num_kv_heads ppo_epochs prompt_template quantizer \
    save_every_n_epochs value_coeff whiten_rewards cliprange kl_estimator lmbda ref_adapter_name response_length \
    total_episodes vf_coef load_in_fp8 imatrix max_shard_size qat_scheme safe_serialization fix_tokenizer; do
    run train "--$name=1" --print-options
    ! grep -qE 'unknown option|of other commands' <<<"$err"
    check $? "$name of TRL, axolotl and others" "$err"
done
for name in max_length max_new_tokens min_length min_new_tokens early_stopping max_time stop_strings do_sample num_beams \
    use_mtp cache_implementation cache_config max_cache_len temperature top_k top_p min_p top_h typical_p \
    epsilon_cutoff eta_cutoff repetition_penalty encoder_repetition_penalty length_penalty no_repeat_ngram_size \
    bad_words_ids renormalize_logits forced_bos_token_id forced_eos_token_id remove_invalid_values \
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens sequence_bias token_healing \
    guidance_scale watermarking_config num_return_sequences output_attentions output_hidden_states output_scores \
    output_logits return_dict_in_generate pad_token_id bos_token_id eos_token_id encoder_no_repeat_ngram_size \
    decoder_start_token_id is_assistant num_assistant_tokens num_assistant_tokens_schedule \
    assistant_confidence_threshold prompt_lookup_num_tokens max_matching_ngram_size assistant_early_exit \
    assistant_lookbehind target_lookbehind assistant_ensemble_weight speculation_type compile_config \
    disable_compile continuous_batching_config low_memory penalty_alpha dola_layers diversity_penalty \
    num_beam_groups constraints force_words_ids prefill_chunk_size transformers_version hf_repo hf_file keep \
    color interactive_first multiline_input in_prefix in_suffix simple_io no_display_prompt verbose_prompt \
    single_turn logit_bias top_n_sigma xtc_probability xtc_threshold dry_multiplier dry_base dynatemp_range \
    sampling_seq json_schema chat_template_file reasoning_format threads_batch cpu_mask prio ubatch_size \
    cache_type_k numa main_gpu split_mode lora_scaled prompt_cache log_disable print_timings draft model_draft \
    grp_attn_n yarn_orig_ctx n_keep escape special antiprompt max_gen_toks add_generation_prompt enable_thinking \
    stop_token n_probs temp_last sampler_seq adaptive_target json_schema_file no_context_shift system_prompt_file \
    in_prefix_bos cpu_range poll perf binary_file kv_offload repack defrag_thold parallel direct_io load_mode \
    list_devices override_tensor cpu_moe fit fit_ctx control_vector model_url docker_repo log_colors offline \
    log_timestamps; do
    run generate "--$name=1" --print-options
    ! grep -qE 'unknown option|of other commands' <<<"$err"
    check $? "$name of transformers' GenerationConfig or llama.cpp" "$err"
done
# So is every optimizer and every schedule that transformers has.
for name in adamw_torch adamw_torch_fused adamw_torch_xla adamw_torch_npu_fused adafactor adamw_anyprecision \
    adamw_torch_4bit adamw_torch_8bit ademamix sgd adagrad adamw_bnb_8bit adamw_8bit ademamix_8bit lion_8bit \
    lion_32bit paged_adamw_32bit paged_adamw_8bit paged_ademamix_32bit paged_ademamix_8bit paged_lion_32bit \
    paged_lion_8bit rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit galore_adamw galore_adamw_8bit \
    galore_adafactor galore_adamw_layerwise galore_adamw_8bit_layerwise galore_adafactor_layerwise lomo adalomo \
    grokadamw schedule_free_radam schedule_free_adamw schedule_free_sgd apollo_adamw apollo_adamw_layerwise \
    stable_adamw; do
    run train --optim $name --print-options
    [[ $code -eq 0 ]] || grep -q 'the nearest is' <<<"$err"
    check $? "the optimizer $name" "$err"
done
for name in linear cosine cosine_with_restarts polynomial constant constant_with_warmup inverse_sqrt \
    reduce_lr_on_plateau cosine_with_min_lr cosine_warmup_with_min_lr warmup_stable_decay greedy; do
    run train --lr-scheduler-type $name --print-options
    [[ $code -eq 0 ]] || grep -q 'the nearest is' <<<"$err"
    check $? "the schedule $name" "$err"
done

# Commands of other programs: the nearest of ours and its help, or the reason why there is none.
for row in 'finetune:is train:train' 'fine_tune:is train:train' 'sft:is train:train' 'dpo:has --task:train' 'grpo:has --task:train' \
    'resume:has --resume:train' 'chat:has --chat:generate' 'inference:is generate:generate' 'serve:there is no server:export' \
    'quantize:has --save-quant:export' 'convert:import reads GGUF:export' 'merge-lora:--adapter DIR --merge:export' \
    'evaluate:is eval, with --predictions:eval' 'perplexity:is eval:eval' 'embedding:is embed:embed' 'preprocess:is tokenize:tokenize' \
    'distillation:is distill:distill' 'estimate-memory:is plan:plan' 'env:is devices:devices' 'monitor:is watch:watch' \
    'benchmark:is bench:bench' 'wizard:is init:init' 'download:hf download:' 'push:hf upload:' 'models:--help presets:' 'version:--version:'; do
    IFS=: read -r word hint ours <<<"$row"
    expect 2 "^bedplate: $word: unknown command: .*$hint" "$word" --model tiny
    [[ $(grep -c . <<<"$err") -eq $((${#ours} > 0 ? 2 : 1)) && -z $out ]] &&
        { [[ -z $ours ]] || { grep -qx "try: bedplate $ours --help" <<<"$err" && "$program" "$ours" --help >"$work/help"; }; }
    check $? "$word: its help can be shown" "$err"
done

# A configuration file takes the same names; the command line wins under any of them.
cat >"$work/a.conf" <<'END'
model_name_or_path = tiny
batch_size = 3
optimizer = paged_adamw_8bit
train_on_inputs = true
modules_to_save = wte,ln_f
no_bf16 = false
END
ours='--model tiny --optim adamw_8bit --loss-on all --trainable @wte --trainable @ln_f --bf16'
same train "--config $work/a.conf" "$ours --per-device-train-batch-size 3"
same train "--config $work/a.conf --micro-batch-size 5" "$ours --per-device-train-batch-size 5"
printf 'seed = 1\nlr = 1e-3\nlearning_rate = 1e-3\n' >"$work/b.conf"
expect 2 'b.conf:3: the option is given twice: found --lr and --learning-rate' train --config "$work/b.conf"
printf 'wandb_project = x\n' >"$work/c.conf"
expect 2 'c.conf:1: .*TensorBoard files' train --config "$work/c.conf"
printf 'lora_bais = all\n' >"$work/d.conf"
expect 2 'd.conf:1: --lora.bais: unknown option: the nearest is --lora-bias' train --config "$work/d.conf"

# A module to save is trained whole beside adapters: the plan of our own pattern is that of the name.
adapters=(plan --model tiny-llama --lora-r 2 --json)
run "${adapters[@]}"
bare=$(json arena_bytes)
run "${adapters[@]}" --modules-to-save embed_tokens
named=$(json arena_bytes)
run "${adapters[@]}" --trainable '*embed_tokens*'
[[ -n $bare && $named -gt $bare && $named == "$(json arena_bytes)" ]]
check $? "modules_to_save trains the module ($bare, $named)" "$err"
expect 2 'matches no parameter' plan --model tiny --lora-r 2 --modules-to-save nowhere

# A share of all steps, rounded up as transformers does: 7 steps, a half of which is 4.
seq 1 300 >"$work/text"
train=(train --model tiny --data "$work/text" --max-seq-length 16 --per-device-train-batch-size 1 --max-steps 7 --quiet)
run "${train[@]}" --output-dir "$work/run" --validation-split 0.3 --eval-steps 0.5 --save-steps 0.5 --logging-steps 0.2 --json
[[ $code -eq 0 && -d $work/run/checkpoint-4 && ! -d $work/run/checkpoint-3 ]] &&
    [[ $(sed -nE 's/^\{"step": ([0-9]+), .*"mean_loss".*/\1/p' <<<"$out" | tr '\n' ' ') == "2 4 6 7 " ]]
check $? "shares of the run: saved at 4, logged at 2, 4, 6" "$err$out$(ls "$work/run")"

# --help: few options, all of them, or those of a word.
count() { grep -c '^  --' <<<"$out"; }
run train --help
[[ $code -eq 0 && $(count) -ge 18 && $(count) -le 28 ]] && grep -q 'help all' <<<"$out" && grep -q '^  --arena' <<<"$out"
check $? "train --help has the $(count) options that matter" "$out"
brief=$(count)
run train --help all
[[ $code -eq 0 && $(count) -gt $((brief * 5)) ]]
check $? "train --help all has $(count)" "$err"
run help train lora
[[ $code -eq 0 && $(count) -lt 45 ]] && grep -q '^  --lora-r' <<<"$out" && grep -q -- '--lora-rank: --lora-r' <<<"$out" &&
    ! grep -q '^  --seed\|^  --eva-config\|not implemented: the' <<<"$out"
check $? "help train lora has what concerns it" "$out$err"
expect 0 'per-device-train-batch-size' train --help BATCH
expect 0 'TensorBoard files' train -h wandb
expect 2 'no option of train has this word: found "xyzzy"' train --help xyzzy
expect 0 '^  --capacity' help arena
expect 2 'unknown command: the nearest is train' help trian
finish

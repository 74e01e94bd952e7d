# bash completion for tapedeck
_tapedeck() {
    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} options
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "train predict weights view report --help --version" -- "$word")
        return
    fi
    case $command in
    train) options="--set --out --resume --dry-run --quiet --json --help" ;;
    predict) options="--to --label --labels --batch --record --form --out --quiet --help" ;;
    weights) options="--to --from --help" ;;
    view) options="--port --host --no-open --help" ;;
    report) options="-o --to --help" ;;
    *) return ;;
    esac
    case $previous in
    --set)
        mapfile -t COMPREPLY < <(compgen -S= -W "name seed threads data.train data.validation \
            data.batch data.shuffle data.scale train.loss train.epochs train.steps train.optimizer \
            train.clip_norm train.checkpoint policy queue overhead" -- "$word")
        compopt -o nospace
        return
        ;;
    --form)
        mapfile -t COMPREPLY < <(compgen -W "tensor rows long stats histogram image scalar hash" \
            -- "$word")
        return
        ;;
    --resume)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames
    fi
}
complete -F _tapedeck tapedeck

# Bash splits words at colons, which addresses and eth0:out have: joins them for limiter, and cuts its answers again.
_limiter() {
    local joined=() piece glue=no index
    for ((index = 0; index <= COMP_CWORD; index++)); do
        piece=${COMP_WORDS[index]}
        if [[ ${#joined[@]} -gt 0 && $piece =~ ^:+$ ]] || [[ $glue == yes && ( -n $piece || ${COMP_LINE:COMP_POINT-1:1} != ' ' ) ]]; then
            joined[${#joined[@]}-1]+=$piece
        else
            joined+=("$piece")
        fi
        [[ $piece =~ ^:+$ ]] && glue=yes || glue=no
    done
    local current=${joined[${#joined[@]}-1]}
    local COMP_WORDS=("${joined[@]}") COMP_CWORD=$((${#joined[@]}-1))
    _clap_complete_limiter limiter "$current" "$3"
    local before=${current%"${current##*:}"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
}
complete -o nospace -o bashdefault -F _limiter limiter
complete -o nospace -o bashdefault -o nosort -F _limiter limiter 2> /dev/null || true

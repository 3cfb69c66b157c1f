# A command whose output and end are kept in a spool, so that no byte of it is lost with a connection. POSIX sh with the
# usual small programs: dash, bash and busybox run it. It is told: shell, mode, id, and what the mode needs.
#
# The spool of a command is a folder of its own:
#   runner child      "PID START BOOT": who waits for the command, and the command itself, told from later processes
#   o.N e.N           its outputs from offset N on, in pieces; numbers begin with 10^15, so that they sort
#   o.end e.end       everything that could be written there has been
#   a.READER          "OUT ERR SESSION": what a reader has for sure; touched while it reads
#   i.N w.N i.len     input from offset N on; whose it is (a link to a token); how much there is; i.eof where it ends
#   fed               how much of the input was passed on
#   argv              the command's words, each with a NUL behind it
#   status            "CODE OUT ERR LEFT REASON": how it ended, how much it wrote, whether anybody goes on writing
_ob_umask=$(umask)
umask 077
_ob_path=$PATH
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
_ob_script=$1 _ob_sh=$2 _ob_mode=$3 _ob_id=$4
shift 4
_ob_root=${ONCEBOX_SPOOL:-/tmp/.oncebox-$(id -u)}
_ob_d=$_ob_root/$_ob_id
_ob_base=1000000000000000

_ob_say() { printf '%s\n' "$*"; }

# The start time of process $1 into _ob_t, and its state into _ob_z. Fails when it is gone.
_ob_started() {
    { read -r _ob_l <"/proc/$1/stat"; } 2>/dev/null || return 1
    set -- ${_ob_l##*) }
    _ob_z=$1
    case $_ob_z in Z | X) return 1 ;; esac
    shift 19
    _ob_t=$1
}

_ob_boot() {
    _ob_b=-
    { read -r _ob_b </proc/sys/kernel/random/boot_id; } 2>/dev/null
}

# Writes which process $2 is to file $1.
_ob_sign() {
    _ob_boot
    _ob_t=-
    _ob_started "$2"
    _ob_say "$2 $_ob_t $_ob_b" >"$1.tmp"
    mv "$1.tmp" "$1"
}

# Whether the process of file $1 still runs.
_ob_alive() {
    { read -r _ob_p _ob_s _ob_o <"$1"; } 2>/dev/null || return 1
    _ob_boot
    [ "$_ob_o" = "$_ob_b" ] && _ob_started "$_ob_p" && [ "$_ob_t" = "$_ob_s" ]
}

_ob_size() { stat -c %s "$1" 2>/dev/null || wc -c <"$1"; }

# The end of output $1 into _ob_n.
_ob_total() {
    _ob_n=0
    for _ob_f in "$1".1*; do :; done
    [ -e "$_ob_f" ] && _ob_n=$((${_ob_f#*.} - _ob_base + $(_ob_size "$_ob_f")))
}

# Kills the command's group, or the process alone where it leads none.
_ob_kill() {
    _ob_alive child || return 1
    { kill "-$1" "-$_ob_p" || kill "-$1" "$_ob_p"; } 2>/dev/null
}

# Removes what all readers have, of output $1.
_ob_trim() {
    find . -name 'a.*' -mmin +1 -exec rm -f {} + 2>/dev/null
    _ob_m=
    for _ob_f in a.*; do
        { read -r _ob_x _ob_y _ob_w <"$_ob_f"; } 2>/dev/null || continue
        [ "$1" = e ] && _ob_x=$_ob_y
        { [ -z "$_ob_m" ] || [ "$_ob_x" -lt "$_ob_m" ]; } && _ob_m=$_ob_x
    done
    [ -n "$_ob_m" ] || return 0
    _ob_w=
    for _ob_f in "$1".1*; do
        [ -n "$_ob_w" ] && [ $((${_ob_f#*.} - _ob_base)) -le "$_ob_m" ] && rm -f "$_ob_w"
        _ob_w=$_ob_f
    done
}

# Whether there is room for more: a piece of either output.
_ob_has_room() {
    _ob_n=0
    # Of one that is removed meanwhile both say that it is not there; so not the one after the other.
    if [ "$_ob_stat" = 1 ]; then
        set -- $(stat -c %s o.1* e.1* 2>/dev/null)
    else
        set -- $(wc -c o.1* e.1* 2>/dev/null | grep -v ' total$')
    fi
    for _ob_x; do
        case $_ob_x in *[!0-9]*) ;; *) _ob_n=$((_ob_n + _ob_x)) ;; esac
    done
    [ $((_ob_n + 2 * _ob_piece)) -le "$_ob_bound" ]
}

# From descriptor 3 into pieces of output $1. (Descriptor 0 of background jobs is /dev/null.)
_ob_pump() {
    _ob_at=$_ob_base
    : >"$1.$_ob_at"
    while :; do
        while ! _ob_has_room; do
            if [ -e status ] || [ -e forgotten ]; then
                exec cat <&3 >/dev/null
            fi
            # Of both: the other one's pump may have nothing to write, and so never look.
            _ob_trim o
            _ob_trim e
            _ob_has_room && break
            if [ "$_ob_full" = kill ]; then
                : >full
                _ob_kill 9
                cat <&3 >/dev/null
                : >"$1.end"
                return
            fi
            sleep 0.1
        done
        # What it reads it writes at once. Its count of reads tells whether it came to the end.
        LC_ALL=C dd bs=65536 "count=$((_ob_piece / 65536))" <&3 >>"$1.$_ob_at" 2>"$1.dd" &
        _ob_say $! >"$1.pid"
        wait $!
        _ob_x=$?
        # Warnings may come first.
        while read -r _ob_y _ob_w; do
            [ "$_ob_w" = 'records in' ] && break
        done <"$1.dd"
        _ob_z=${_ob_y#*+}
        _ob_y=${_ob_y%+*}
        case $_ob_x$_ob_y$_ob_z in
        0 | *[!0-9]*) _ob_x=1 ;;
        esac
        if [ "$_ob_x" != 0 ]; then
            # The disk is full, as a rule: what was read is lost, and so is the command.
            : >disk
            _ob_kill 9
            cat <&3 >/dev/null
            break
        fi
        [ $((_ob_y + _ob_z)) -lt $((_ob_piece / 65536)) ] && break
        _ob_x=$(_ob_size "$1.$_ob_at")
        if [ "$_ob_x" -ge "$_ob_piece" ]; then
            _ob_at=$((_ob_at + _ob_x))
            : >"$1.$_ob_at"
        fi
    done
    : >"$1.end"
}

# Input that has come, to descriptor 1, until it ends or the command does.
_ob_feed_on() {
    _ob_n=0
    _ob_w=1
    while [ ! -e status ]; do
        _ob_f=i.$((_ob_base + _ob_n))
        if [ -e "$_ob_f" ]; then
            _ob_x=$(_ob_size "$_ob_f")
            cat "$_ob_f" 2>/dev/null || return
            _ob_n=$((_ob_n + _ob_x))
            _ob_say "$_ob_n" >fed.tmp
            mv fed.tmp fed
            rm -f "$_ob_f"
            _ob_w=1
        elif { read -r _ob_x <i.eof; } 2>/dev/null && [ "$_ob_x" = "$_ob_n" ]; then
            return
        else
            sleep "0.0$_ob_w"
            [ "$_ob_w" -lt 9 ] && _ob_w=$((_ob_w + 1))
        fi
    done
}

# Whether output $1 is at its end, or its pump found nothing more to read.
_ob_idle() {
    [ -e "$1.end" ] && return 0
    { read -r _ob_p <"$1.pid"; } 2>/dev/null && _ob_started "$_ob_p" && [ "$_ob_z" = S ]
}

# bound, full, timeout, input; and then the command.
_ob_runner() {
    _ob_bound=$1 _ob_full=$2 _ob_limit=$3 _ob_input=$4
    shift 4
    _ob_piece=$((_ob_bound / 16 / 65536 * 65536))
    [ "$_ob_piece" -gt 4194304 ] && _ob_piece=4194304
    [ "$_ob_piece" -lt 65536 ] && _ob_piece=65536
    _ob_stat=0
    stat -c %s / >/dev/null 2>&1 && _ob_stat=1
    _ob_here=$(pwd) _ob_before=${OLDPWD-}
    cd "$_ob_d" || exit
    _ob_sign runner $$
    # Background jobs of a shell ignore interrupts, and the command would, too.
    _ob_env=
    env --default-signal=INT,QUIT true 2>/dev/null && _ob_env='env --default-signal=INT,QUIT'
    _ob_new=
    command -v setsid >/dev/null && _ob_new=setsid
    (_ob_pump o) 3<out &
    (_ob_pump e) 3<err &
    if [ "$_ob_input" = 1 ]; then
        (_ob_feed_on) >in 2>/dev/null &
    fi
    (
        if [ "$_ob_input" = 1 ]; then exec <in; fi
        exec >out 2>err
        cd "$_ob_here" || exit 126
        if [ -n "$_ob_before" ]; then OLDPWD=$_ob_before; else unset OLDPWD; fi
        umask "$_ob_umask"
        PATH=$_ob_path
        exec $_ob_env $_ob_new "$@"
    ) &
    _ob_c=$!
    _ob_sign child $_ob_c
    _ob_g=
    if [ "$_ob_limit" != 0 ]; then
        # Of a session of its own, so that it can be ended with its sleep.
        $_ob_new sh -c 'sleep "$1"; cd "$2" && read -r p s b <child && : >timeout &&
            { kill -9 "-$p" || kill -9 "$p"; } 2>/dev/null' oncebox-timeout "$_ob_limit" "$_ob_d" &
        _ob_g=$!
    fi
    wait $_ob_c
    _ob_code=$?
    if [ -n "$_ob_g" ]; then
        { kill -9 "-$_ob_g" || kill -9 "$_ob_g"; } 2>/dev/null
    fi
    _ob_left=0 _ob_seen=0 _ob_last=
    while [ ! -e o.end ] || [ ! -e e.end ]; do
        # Processes that the command left behind hold its outputs, which then do not end. What was written before its end
        # has been read once the pumps sleep and nothing moves.
        _ob_total o
        _ob_now=$_ob_n
        _ob_total e
        _ob_now=$_ob_now.$_ob_n
        if _ob_idle o && _ob_idle e && [ "$_ob_now" = "$_ob_last" ]; then
            _ob_seen=$((_ob_seen + 1))
        else
            _ob_seen=0
        fi
        if [ "$_ob_seen" -ge 10 ]; then
            _ob_left=1
            break
        fi
        _ob_last=$_ob_now
        sleep 0.03
    done
    _ob_why=-
    [ -e timeout ] && [ "$_ob_code" = 137 ] && _ob_why=timeout
    [ -e full ] && _ob_why=full
    [ -e disk ] && _ob_why=disk
    _ob_total o
    _ob_out=$_ob_n
    _ob_total e
    _ob_say "$_ob_code $_ob_out $_ob_n $_ob_left $_ob_why $_ob_bound" >status.tmp
    mv status.tmp status
}

# Writes what there is of output $1 from offset $2 on, at most $3 bytes, and sets _ob_n to how many; it fails when they
# are not there any more.
_ob_emit() {
    _ob_n=0 _ob_w= _ob_x=
    for _ob_f in "$1".1*; do
        [ -e "$_ob_f" ] || continue
        _ob_x=$((${_ob_f#*.} - _ob_base))
        [ "$_ob_x" -gt "$2" ] && break
        _ob_w=$_ob_f
    done
    if [ -z "$_ob_w" ]; then
        [ -n "$_ob_x" ] || return 0
        _ob_say "g $1 $_ob_x"
        return 1
    fi
    _ob_x=$(($2 - ${_ob_w#*.} + _ob_base))
    _ob_n=$(($(_ob_size "$_ob_w") - _ob_x))
    [ "$_ob_n" -gt "$3" ] && _ob_n=$3
    if [ "$_ob_n" -le 0 ]; then
        _ob_n=0
        return 0
    fi
    _ob_say "$1 $_ob_n"
    tail -c "+$((_ob_x + 1))" "$_ob_w" | head -c "$_ob_n"
    # Whoever removed it meanwhile may have cut it short, which the reader must not take for the whole.
    [ -e "$_ob_w" ]
}

# out, err, reader, session: writes the outputs from these offsets on.
_ob_tail() {
    _ob_o1=$1 _ob_e1=$2 _ob_reader=$3 _ob_session=$4
    cd "$_ob_d" 2>/dev/null || { _ob_say x none; return; }
    _ob_y=0
    while [ ! -e child ]; do
        if [ -e forgotten ]; then
            _ob_say x forgotten
            return
        fi
        _ob_y=$((_ob_y + 1))
        if [ $_ob_y -gt 200 ] || { [ -e runner ] && ! _ob_alive runner && [ ! -e child ]; }; then
            _ob_say x unstarted
            return
        fi
        sleep 0.05
    done
    _ob_bound=67108864
    { read -r _ob_bound <bound; } 2>/dev/null
    _ob_window=$((_ob_bound / 4))
    [ $_ob_window -gt 8388608 ] && _ob_window=8388608
    _ob_say "$_ob_o1 $_ob_e1 $_ob_session" >"a.$_ob_reader.tmp"
    mv "a.$_ob_reader.tmp" "a.$_ob_reader"
    _ob_n=0
    { read -r _ob_n <i.len; } 2>/dev/null
    _ob_say "h 1 $_ob_n"
    _ob_pause=2 _ob_time=0 _ob_still=0 _ob_touched=0
    while :; do
        _ob_q=0 _ob_code=
        { read -r _ob_code _ob_out _ob_err _ob_rest <status; } 2>/dev/null
        _ob_r=$_ob_window
        [ -n "$_ob_code" ] && [ $((_ob_out - _ob_o1)) -lt "$_ob_r" ] && _ob_r=$((_ob_out - _ob_o1))
        _ob_emit o "$_ob_o1" "$_ob_r" || return
        _ob_o1=$((_ob_o1 + _ob_n)) _ob_window=$((_ob_window - _ob_n)) _ob_q=$_ob_n
        _ob_r=$_ob_window
        [ -n "$_ob_code" ] && [ $((_ob_err - _ob_e1)) -lt "$_ob_r" ] && _ob_r=$((_ob_err - _ob_e1))
        _ob_emit e "$_ob_e1" "$_ob_r" || return
        _ob_e1=$((_ob_e1 + _ob_n)) _ob_window=$((_ob_window - _ob_n)) _ob_q=$((_ob_q + _ob_n))
        if [ "$_ob_q" -gt 0 ]; then
            _ob_pause=2 _ob_still=0
            if [ "$_ob_window" -le 0 ]; then
                _ob_say m
                return
            fi
            continue
        fi
        if [ -n "$_ob_code" ]; then
            if [ "$_ob_o1" -ge "$_ob_out" ] && [ "$_ob_e1" -ge "$_ob_err" ]; then
                _ob_say "s $_ob_code $_ob_out $_ob_err $_ob_rest"
                return
            fi
        elif [ -e forgotten ]; then
            _ob_say x forgotten
            return
        elif ! _ob_alive runner && [ ! -e status ] && ! _ob_alive child; then
            # Nobody is left who could tell its end. What its pumps still have is waited for.
            _ob_still=$((_ob_still + 1))
            if [ $_ob_still -ge 4 ]; then
                _ob_say l
                return
            fi
        fi
        # Another session of this reader has taken over.
        { read -r _ob_x _ob_y _ob_w <"a.$_ob_reader"; } 2>/dev/null
        [ "$_ob_w" = "$_ob_session" ] || return
        if [ $((_ob_time - _ob_touched)) -gt 1000 ]; then
            touch "a.$_ob_reader"
            _ob_touched=$_ob_time
        fi
        if [ $_ob_time -gt 30000 ]; then
            _ob_say m
            return
        fi
        if [ $_ob_pause -ge 10 ]; then sleep "0.$_ob_pause"; else sleep "0.0$_ob_pause"; fi
        _ob_time=$((_ob_time + _ob_pause))
        [ $_ob_pause -lt 32 ] && _ob_pause=$((_ob_pause * 2))
    done
}

# Removes what ended a day ago.
_ob_sweep() {
    for _ob_f in $(cd "$_ob_root" && find . -maxdepth 1 -type d -mmin +1440 2>/dev/null); do
        case $_ob_f in ./*) ;; *) continue ;; esac
        (
            cd "$_ob_root/$_ob_f" || exit
            if [ -e status ]; then
                [ -n "$(find status -mmin +1440)" ] || exit
            elif [ ! -e forgotten ] && { _ob_alive runner || _ob_alive child; }; then
                exit
            fi
            cd .. && rm -rf "$_ob_f"
        )
    done
}

# offset, length, token, whether it is the last: takes input from descriptor 0.
_ob_feed() {
    cd "$_ob_d" 2>/dev/null || { _ob_say x none; return; }
    cat >"i.tmp.$$"
    if [ ! -e fed ] && [ -e bound ]; then
        rm -f "i.tmp.$$"
        _ob_say x noinput
        return
    fi
    if [ "$(_ob_size "i.tmp.$$")" != "$2" ]; then
        rm -f "i.tmp.$$"
        _ob_say x short
        return
    fi
    _ob_n=0
    { read -r _ob_n <i.len; } 2>/dev/null
    # Whoever comes first with an offset has it, and may come again.
    if [ "$1" = "$_ob_n" ] && [ ! -e status ] && [ ! -e i.eof ]; then ln -s "$3" "w.$1" 2>/dev/null; fi
    if [ "$(readlink "w.$1")" != "$3" ]; then
        rm -f "i.tmp.$$"
        if [ -e status ] || [ -e i.eof ]; then _ob_say x ended; else _ob_say x conflict; fi
        return
    fi
    if [ "$1" = "$_ob_n" ]; then
        if [ "$2" -gt 0 ]; then mv "i.tmp.$$" "i.$((_ob_base + $1))"; fi
        if [ "$4" = 1 ]; then
            _ob_say $(($1 + $2)) >i.eof.tmp
            mv i.eof.tmp i.eof
        fi
        _ob_say $(($1 + $2)) >i.len.tmp
        mv i.len.tmp i.len
        for _ob_f in w.*; do
            [ "$_ob_f" = "w.$1" ] || rm -f "$_ob_f"
        done
    fi
    rm -f "i.tmp.$$"
    _ob_fed $(($1 + $2))
}

# Waits until no more than 8 MiB of the input up to offset $1 wait for a command that does not read; not for long at a time.
_ob_fed() {
    cd "$_ob_d" 2>/dev/null || { _ob_say x none; return; }
    _ob_y=0
    while :; do
        _ob_n=0
        { read -r _ob_n <fed; } 2>/dev/null
        if [ $(($1 - _ob_n)) -le 8388608 ] || [ -e status ]; then
            _ob_say f
            return
        fi
        _ob_y=$((_ob_y + 1))
        if [ $_ob_y -gt 100 ]; then
            _ob_say w
            return
        fi
        sleep 0.1
    done
}

case $_ob_mode in
run)
    # out err reader session bound full timeout input -- command
    mkdir -p "$_ob_root"
    _ob_sweep 2>/dev/null
    if mkdir "$_ob_d" 2>/dev/null; then
        mkfifo "$_ob_d/out" "$_ob_d/err" "$_ob_d/in"
        _ob_say "$5" >"$_ob_d/bound"
        if [ "$8" = 1 ]; then _ob_say 0 >"$_ob_d/fed"; fi
        _ob_o1=$1 _ob_e1=$2 _ob_reader=$3 _ob_session=$4
        # Half of it would be another command.
        (shift 8; printf '%s\0' "$@") >"$_ob_d/argv" 2>/dev/null || rm -f "$_ob_d/argv"
        shift 4
        _ob_new=
        command -v setsid >/dev/null && _ob_new=setsid
        $_ob_new $_ob_sh -c 'eval "$1"' oncebox "$_ob_script" "$_ob_sh" runner "$_ob_id" "$_ob_umask" "$_ob_path" "$@" \
            </dev/null >/dev/null 2>&1 &
        set -- "$_ob_o1" "$_ob_e1" "$_ob_reader" "$_ob_session"
    elif [ ! -d "$_ob_d" ]; then
        _ob_say x nospool
        exit 1
    fi
    _ob_tail "$1" "$2" "$3" "$4"
    ;;
runner)
    _ob_umask=$1 _ob_path=$2
    shift 2
    _ob_runner "$@"
    ;;
tail) _ob_tail "$@" ;;
argv)
    cd "$_ob_d" 2>/dev/null || { _ob_say x none; exit; }
    if [ -e argv ]; then
        _ob_say "o $(_ob_size argv)"
        cat argv
    fi
    _ob_say k
    ;;
feed) _ob_feed "$@" ;;
fed) _ob_fed "$@" ;;
kill)
    cd "$_ob_d" 2>/dev/null || { _ob_say x none; exit; }
    _ob_y=0
    while [ ! -e child ] && [ $_ob_y -lt 100 ]; do
        _ob_y=$((_ob_y + 1))
        sleep 0.05
    done
    if [ ! -e status ] && _ob_kill "$1"; then _ob_say k; else _ob_say x ended; fi
    ;;
forget)
    cd "$_ob_d" 2>/dev/null || { _ob_say x none; exit; }
    if [ ! -e status ] && { _ob_alive runner || _ob_alive child; }; then
        _ob_say x running
        exit
    fi
    : >forgotten
    for _ob_f in *; do
        [ "$_ob_f" = forgotten ] || rm -f "$_ob_f"
    done
    _ob_say k
    ;;
esac

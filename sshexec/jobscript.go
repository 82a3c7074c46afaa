package sshexec

import (
	"fmt"
	"strconv"
	"strings"
)

// What runs on the host. Both texts are for a POSIX sh, hold no newline, backslash or "!", and so mean the same inside
// single quotes to every login shell, fish and csh too.

// jobShell is the program of every job command: sh -c jobShell sj OP ID MARK …. Only what follows MARK in its answer
// counts: a profile may print what it likes before.
//
// A job's folder is $HOME/.local/state/sallyport/jobs/ID; making it is the lock that lets an id run once. It holds
// in, out, err (what the command reads and wrote), me (the supervisor: PID START BOOT SESSION READER READER), rc (the exit
// status, there once the command has ended), done (both outputs reached their end) and cancel (somebody asked).
var jobShell = oneLine(`
u=$(umask); umask 077;
op=$1 id=$2 mark=$3; shift 3;
p=$HOME/.local/state/sallyport/jobs; d=$p/$id;
nap() { sleep 0.1 2>/dev/null || sleep 1; };
` + lookSh + `
alive() { read -r M T B E R1 R2 <"$d/me" 2>/dev/null || return 1;
 [ "$B" = "$(boot)" ] || return 1; look "$M"; [ -n "$Z" ] && [ "$S" = "$T" ]; };
list() { pids= odd=;
 for f in /proc/[0-9]*; do q=${f#/proc/}; [ "$q" = $$ ] && continue; look "$q"; [ -n "$Z" ] || continue; [ "$S" -ge "$T" ] || continue;
 case " $M $R1 $R2 " in *" $q "*) continue;; esac; case " $R1 $R2 " in *" $P "*) continue;; esac;
 if [ "$G" = "$E" ]; then pids="$pids $q"; continue; fi;
 [ -O "$f" ] || [ "$w" = 0 ] || continue;
 if grep -q "SALLYPORT_JOB=$id" "$f/environ" 2>/dev/null; then pids="$pids $q"; continue; fi;
 case $P in 1) o=1;; *) o=; read -r c <"/proc/$P/comm" 2>/dev/null && [ "$c" = systemd ] && o=1;; esac;
 if [ -n "$o" ]; then grep -q INVOCATION_ID= "$f/environ" 2>/dev/null || odd="$odd $q"; fi;
 done; };
case $op in
start) n=$1 sup=$2; shift 2;
 mkdir -p "$p" 2>/dev/null && cd "$p" || { echo "$mark refused"; exit 1; };
 mkdir "$d" 2>/dev/null || { [ -d "$d" ] && echo "$mark exists" || echo "$mark refused"; exit 1; };
 cat >"$d/in"; [ "$(wc -c <"$d/in")" -eq "$n" ] || { rm -rf "$d"; echo "$mark refused"; exit 1; };
 s=; command -v setsid >/dev/null && s=setsid;
 SALLYPORT_JOB=$id $s sh -c "$sup" sj "$d" "$u" "$@" </dev/null >/dev/null 2>&1 &
 i=0; until [ -s "$d/me" ] || [ $i -ge 100 ]; do nap; i=$((i+1)); done;
 if [ -s "$d/me" ]; then echo "$mark started"; else echo "$mark unsure"; fi;;
status) from=$1 frome=$2 max=$3;
 if [ -d "$d" ]; then st=lost; alive && st=running; [ -s "$d/rc" ] && st=ended;
 [ -s "$d/me" ] || { [ -n "$(find "$d" -prune -mmin -1 2>/dev/null)" ] && st=running; };
 else st=none; fi;
 rc=-; [ $st = ended ] && rc=$(cat "$d/rc"); k=0; [ -e "$d/cancel" ] && k=1; y=0; [ -e "$d/done" ] && y=1;
 a=0 b=0; [ -e "$d/out" ] && a=$(wc -c <"$d/out"); [ -e "$d/err" ] && b=$(wc -c <"$d/err");
 x=$((a-from)); [ $x -gt "$max" ] && x=$max; [ $x -lt 0 ] && x=0;
 z=$((b-frome)); [ $z -gt "$max" ] && z=$max; [ $z -lt 0 ] && z=0;
 echo "$mark $st $rc $k $y $((a)) $((b)) $x $z";
 [ $x -gt 0 ] && tail -c +$((from+1)) "$d/out" | head -c $x; [ $z -gt 0 ] && tail -c +$((frome+1)) "$d/err" | head -c $z; :;;
cancel) grace=$1; [ -d "$d" ] || { echo "$mark none -"; exit 0; };
 r=-; [ -s "$d/rc" ] && r=$(cat "$d/rc"); : >"$d/cancel";
 read -r M T B E R1 R2 <"$d/me" 2>/dev/null || { echo "$mark unsure -"; exit 0; };
 if [ "$B" = "$(boot)" ]; then :; else echo "$mark gone $r"; exit 0; fi;
 [ -r /proc/self/stat ] || { kill -TERM "-$M" 2>/dev/null || kill -TERM "$M"; echo "$mark unsure $r"; exit 0; };
 w=$(id -u); list; [ -n "$pids" ] || { [ "$r" = - ] || { [ -z "$odd" ] && echo "$mark ended $r" || echo "$mark unsure $r"; exit 0; }; };
 seen=; t=$(date +%s);
 while [ -n "$pids" ] && [ $(($(date +%s)-t)) -lt "$grace" ]; do
 for q in $pids; do case " $seen " in *" $q "*) ;; *) kill -TERM $q 2>/dev/null; seen="$seen $q";; esac; done; nap; list; done;
 t=$(date +%s); while [ -n "$pids" ] && [ $(($(date +%s)-t)) -lt 3 ]; do kill -KILL $pids 2>/dev/null; nap; list; done;
 i=0; until [ -s "$d/rc" ] || [ $i -ge 20 ]; do alive || break; nap; i=$((i+1)); done;
 [ "$r" = - ] && [ -s "$d/rc" ] && r=$(cat "$d/rc");
 list; v=gone; [ -z "$odd" ] || v=unsure; [ -z "$pids" ] || v=left; echo "$mark $v $r";;
esac`)

// lookSh defines boot (this boot's name) and look PID, which sets Z state, P parent, G session and S start time; Z is
// empty for a process that is gone or a zombie. A process chooses its name, ")" and newlines included: the last ") " of the
// whole text ends it.
const lookSh = `
boot() { cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.bootsessionuuid 2>/dev/null || echo unknown; };
cut22() { Z=$1 P=$2 G=$4 S=${20}; };
look() { Z= P= G= S=;
 if [ -r /proc/self/stat ]; then L=; { IFS= read -r L <"/proc/$1/stat"; } 2>/dev/null; cut22 ${L##*") "};
 [ -n "$S" ] || { L=$(cat "/proc/$1/stat" 2>/dev/null); cut22 ${L##*") "}; };
 else cut22 $(ps -o state=,ppid= -p "$1" 2>/dev/null); S=$(ps -o lstart= -p "$1" 2>/dev/null | tr " " _); fi;
 case $Z in Z*|X*) Z=;; esac; };`

// jobSupervisor outlives the connection: sh -c jobSupervisor sj FOLDER UMASK ARGV…. It traps TERM without ignoring it,
// so that the command is born with the default; what the command leaves behind keeps the outputs, and so this, open.
var jobSupervisor = oneLine(`
d=$1 u=$2; shift 2; trap : TERM HUP; cd "$d" || exit 1;
` + lookSh + `
mkfifo o e || exit 1;
{ head -c ` + strconv.Itoa(jobOutputLimit+1) + ` >out; cat >/dev/null; } <o & a=$!;
{ head -c ` + strconv.Itoa(jobOutputLimit+1) + ` >err; cat >/dev/null; } <e & b=$!;
look $$; echo "$$ $S $(boot) ${G:-0} $a $b" >me.t && mv me.t me;
( cd; umask "$u"; exec "$@" ) <in >o 2>e; r=$?;
echo $r >rc.t && mv rc.t rc;
while kill -0 $a 2>/dev/null || kill -0 $b 2>/dev/null; do wait $a $b; done; : >done; rm -f o e in`)

// oneLine joins the lines of a script whose statements each end by themselves.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n", " ")), " ")
}

// jobLine is the exec line of one job command.
func jobLine(op, id, mark string, args ...any) string {
	argv := []string{"sh", "-c", jobShell, "sj", op, id, mark}
	for _, a := range args {
		argv = append(argv, fmt.Sprint(a))
	}
	return quoteAll(argv)
}

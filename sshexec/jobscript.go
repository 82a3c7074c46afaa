package sshexec

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// What runs on the host. Both texts are for a POSIX sh, hold no newline, backslash or "!", and so mean the same inside
// single quotes to every login shell, fish and csh too.

// jobShell is the program of every job command: sh -c jobShell sj OP ID MARK …. Only what follows MARK in its answer
// counts: a profile may print what it likes before.
//
// A job's folder is $HOME/.local/state/sallyport/jobs/ID; making it is the lock that lets an id run once (an
// earlier start whose stdin was cut takes it away again). It holds
// in, out, err (what the command reads and wrote), me (the supervisor: PID START BOOT SESSION READER READER), rc (the exit
// status, there once the command has ended), done (both outputs reached their end) and cancel (somebody asked). The job may
// write there as it likes, so a proof rests on none of it: see jobLimits.
var jobShell = oneLine(`
u=$(umask); umask 077;
op=$1 id=$2 mark=$3; shift 3;
p=$HOME/.local/state/sallyport/jobs; d=$p/$id;
nap() { sleep 0.1 2>/dev/null || sleep 1; };
` + lookSh + `
alive() { read -r M T B E R1 R2 <"$d/me" 2>/dev/null || return 1;
 [ "$B" = "$(boot)" ] || return 1; look "$M"; [ -n "$Z" ] && [ "$S" = "$T" ]; };
tally() { dp=; while [ $# -ge 9 ]; do case $5 in
 data) dp=$2 dv=$8;;
 resident) if [ "$dp" = "$2" ] && [ "$8" -le "$L1" ] && [ "$dv" -le "$L2" ]; then
 if [ "$8" = "$L1" ] || [ "$dv" = "$L2" ]; then hits="$hits $2"; else odds="$odds $2"; fi; fi;;
 esac; shift 9; done; };
list() { pids= odd= own= hits= odds=;
 [ -z "$can" ] || tally $(grep -sE "^Max (data size|resident set)" /proc/[0-9]*/limits | grep -v "unlimited *bytes" | tr ":/" " ");
 hits=" $hits $(grep -ls "SALLYPORT_JOB=$id" /proc/[0-9]*/environ 2>/dev/null | tr -c 0-9 " ") ";
 for f in /proc/[0-9]*; do q=${f#/proc/}; [ "$q" = $$ ] && continue; look "$q"; [ -n "$Z" ] || continue;
 case $hits in *" $q "*) h=1;; *) h=;; esac; [ "$G" = "$E" ] && [ "$S" -ge "$T" ] && h=1;
 if [ -n "$h" ]; then case " $M $R1 $R2 " in *" $q "*) own="$own $q"; continue;; esac;
 case " $R1 $R2 " in *" $P "*) own="$own $q";; *) pids="$pids $q";; esac; continue; fi;
 if [ -n "$can" ]; then case " $odds " in *" $q "*) odd="$odd $q";; esac; continue; fi;
 [ "$S" -ge "$T" ] || continue; [ -O "$f" ] || [ "$w" = 0 ] || continue;
 case $P in 1) o=1;; *) o=; read -r c <"/proc/$P/comm" 2>/dev/null && [ "$c" = systemd ] && o=1;; esac;
 if [ -n "$o" ]; then look "$G"; [ -n "$Z" ] && [ "$S" -lt "$T" ] || odd="$odd $q"; fi;
 done; };
case $op in
start) n=$1 sup=$2 m1=$3 m2=$4; shift 4;
 mkdir -p "$p" 2>/dev/null && cd "$p" || { echo "$mark refused"; exit 1; };
 i=0; until mkdir "$d" 2>/dev/null; do
 [ -s "$d/me" ] && { echo "$mark exists"; exit 1; }; [ -d "$d" ] || [ $i -lt 3 ] || { echo "$mark refused"; exit 1; };
 [ $i -lt 100 ] || { echo "$mark unsure"; exit 1; }; nap; i=$((i+1)); done;
 cat >"$d/in"; [ "$(wc -c <"$d/in")" -eq "$n" ] || { rm -rf "$d"; echo "$mark refused"; exit 1; };
 s=; command -v setsid >/dev/null && s=setsid;
 SALLYPORT_JOB=$id $s sh -c "$sup" sj "$d" "$u" "$m1" "$m2" "$@" </dev/null >/dev/null 2>&1 &
 i=0; until [ -s "$d/me" ] || [ $i -ge 100 ]; do [ -d "$d" ] || break; nap; i=$((i+1)); done;
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
cancel) grace=$1 L1=$(($2*1024)) L2=$(($3*1024)) w=$(id -u);
 can=$( { ulimit -m $2; ulimit -d $3; grep -E "^Max (data size|resident set) .* ($L1|$L2) *bytes" /proc/self/limits | grep -c .; } 2>/dev/null); [ "$can" = 2 ] || can=;
 r=- M= T=0 B= E=- R1= R2= sure=1;
 if [ -d "$d" ]; then : >"$d/cancel"; [ -s "$d/rc" ] && r=$(cat "$d/rc");
 read -r M T B E R1 R2 <"$d/me" 2>/dev/null || sure=; [ "$E" = 0 ] && E=-;
 [ "$B" = "$(boot)" ] || { [ -z "$can" ] && [ -n "$sure" ] && { echo "$mark gone $r"; exit 0; }; M= T=0 E=- R1= R2=; };
 fi;
 [ -r /proc/self/stat ] || { [ -d "$d" ] || { echo "$mark none -"; exit 0; }; [ -z "$M" ] || kill -TERM "-$M" 2>/dev/null || kill -TERM "$M"; echo "$mark unsure $r"; exit 0; };
 [ -r /proc/1/stat ] || sure=;
 list; i=0; while [ -s "$d/rc" ] && [ -z "$pids" ] && [ -n "$own" ] && [ $i -lt 20 ]; do nap; list; i=$((i+1)); done;
 if [ -z "$pids$own" ]; then [ -d "$d" ] || { echo "$mark none -"; exit 0; };
 if [ -s "$d/rc" ]; then [ -z "$odd" ] && [ -n "$sure" ] && echo "$mark ended $r" || echo "$mark unsure $r"; exit 0; fi; fi;
 seen=; t=$(date +%s);
 while [ -n "$pids" ] && [ $(($(date +%s)-t)) -lt "$grace" ]; do
 for q in $pids; do case " $seen " in *" $q "*) ;; *) kill -TERM $q 2>/dev/null; seen="$seen $q";; esac; done; nap; list; done;
 t=$(date +%s); while [ -n "$pids" ] && [ $(($(date +%s)-t)) -lt 3 ]; do kill -KILL $pids 2>/dev/null; nap; list; done;
 i=0; until [ -s "$d/rc" ] || [ $i -ge 20 ]; do alive || break; nap; i=$((i+1)); done;
 list; i=0; while [ -n "$pids$own" ] && [ $i -lt 30 ]; do [ $i -lt 10 ] || kill -KILL $pids $own 2>/dev/null; nap; list; i=$((i+1)); done;
 [ "$r" = - ] && [ -s "$d/rc" ] && r=$(cat "$d/rc");
 v=gone; [ -z "$odd" ] && [ -n "$sure" ] || v=unsure; [ -z "$pids$own" ] || v=left; echo "$mark $v $r";;
forget) rm -rf "$d"; [ -e "$d" ] && echo "$mark kept" || echo "$mark forgotten";;
esac`)

// jobLimits are the hard limits (in KiB, of resident memory and of data) that mark a job's processes: far beyond what a
// machine has, so without effect. Each process inherits them, also one that left its session, cleared its environment or
// became another user, and without root's rights a limit is only ever lowered. So whoever is above one of them is none of
// the job's, who has one of them is, and who is below both may be. Their sum is that of every other job's, so nobody who
// lowers his own becomes one of another job.
func jobLimits(id string) (resident, data uint64) {
	sum := sha256.Sum256([]byte(id))
	x := binary.BigEndian.Uint64(sum[:]) >> 24
	return 1<<40 + x, 1<<41 - x
}

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
d=$1 u=$2; trap : TERM HUP; cd "$d" || exit 1; ulimit -m "$3"; ulimit -d "$4"; shift 4;
` + lookSh + `
fail() { kill $a $b; rm -rf "$d"; exit 1; }; a= b=;
mkfifo o e && printf %-7s - >rc.t || fail;
{ head -c ` + strconv.Itoa(jobOutputLimit+1) + ` >out; cat >/dev/null; } <o & a=$!;
{ head -c ` + strconv.Itoa(jobOutputLimit+1) + ` >err; cat >/dev/null; } <e & b=$!;
look $$; echo "$$ $S $(boot) ${G:-0} $a $b" >me.t && mv me.t me || fail;
( cd; umask "$u"; exec "$@" ) <in >o 2>e; r=$?;
printf %-7s $r 1<>rc.t && mv rc.t rc;
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

package auditlog_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// rootOf is MTH of RFC 6962, section 2.1, over leaf hashes.
func rootOf(l [][32]byte) [32]byte {
	if len(l) == 1 {
		return l[0]
	}
	k := 1
	for 2*k < len(l) {
		k *= 2
	}
	a, b := rootOf(l[:k]), rootOf(l[k:])
	return sha256.Sum256(append(append([]byte{1}, a[:]...), b[:]...))
}

// The log in testdata/vectors/explained, walked by the format alone: a crash cut segment 2, and segment 3 explains it.
func Example() {
	dir := "testdata/vectors/explained"
	const origin = "vectors.example/1"
	types := []string{1: "HEADER", 2: "BATCH", 3: "RECORD", 4: "COMMIT"}
	head := sha256.Sum256([]byte("auditlog chain 1\n" + origin))
	var committed [32]byte
	var link []byte     // a BATCH and its RECORDs
	var tree [][32]byte // hash of each leaf
	for n := 1; n <= 3; n++ {
		name := fmt.Sprintf("%08d.seg", n)
		seg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(name)
		var key ed25519.PublicKey
		for len(seg) >= 5 {
			size := 5 + int(binary.BigEndian.Uint32(seg))
			if size > len(seg) {
				break
			}
			frame, body := seg[:size], seg[5:size]
			switch typ := frame[4]; typ {
			case 1:
				// Fixed fields before the key: magic, origin, segment, reason, created, head, sequence, commits.
				at := 8 + 1 + len(origin) + 8 + 1 + 8
				edge := int(body[at+32+8+8])
				key = body[at+32+8+8+1+32*edge:][:32]
				fmt.Println(" ", types[typ], "reason", body[8+1+len(origin)+8], "chain goes on:", bytes.Equal(body[at:at+32], head[:]))
			case 3:
				fmt.Println(" ", types[typ], "kind", body[0])
			case 4:
				at := body[8:]
				segment, seq, commits, nano := binary.BigEndian.Uint64(at), binary.BigEndian.Uint64(at[8:]), binary.BigEndian.Uint64(at[16:]), binary.BigEndian.Uint64(at[24:])
				if link != nil {
					head = sha256.Sum256(append(head[:], link...))
				}
				chain, root, sigs := at[32:64], at[64:96], at[96:]
				text := fmt.Sprintf("%s\n%d\n%s\nsequence %d\nhead %s\nsegment %d\ntime %s\n", origin, commits, base64.StdEncoding.EncodeToString(root),
					seq, base64.StdEncoding.EncodeToString(chain), segment, time.Unix(0, int64(nano)).UTC().Format(time.RFC3339Nano))
				leaf := binary.BigEndian.AppendUint64([]byte{0}, seq)
				leaf = append(binary.BigEndian.AppendUint64(leaf, nano), chain...)
				tree = append(tree, sha256.Sum256(leaf))
				is := rootOf(tree)
				fmt.Println(" ", types[typ], commits, "record", seq, "head:", bytes.Equal(chain, head[:]), "root:", bytes.Equal(root, is[:]),
					"signature:", ed25519.Verify(key, []byte(text), sigs[:64]), "countersigned:", len(sigs) == 128)
			default:
				fmt.Println(" ", types[typ])
			}
			switch frame[4] {
			case 4:
				head = sha256.Sum256(append(head[:], frame...))
				committed, link = head, nil
			case 1:
				head = sha256.Sum256(append(head[:], frame...))
			default:
				link = append(link, frame...)
			}
			seg = seg[size:]
		}
		if len(seg) > 0 {
			fmt.Println("  cut off")
		}
		head, link = committed, nil // a torn batch is not in the chain
	}
	// Output:
	// 00000001.seg
	//   HEADER reason 1 chain goes on: true
	//   COMMIT 1 record 0 head: true root: true signature: true countersigned: false
	//   BATCH
	//   RECORD kind 1
	//   RECORD kind 2
	//   COMMIT 2 record 2 head: true root: true signature: true countersigned: false
	//   BATCH
	//   COMMIT 3 record 2 head: true root: true signature: true countersigned: true
	// 00000002.seg
	//   HEADER reason 3 chain goes on: true
	//   COMMIT 4 record 2 head: true root: true signature: true countersigned: true
	//   BATCH
	//   RECORD kind 3
	//   COMMIT 5 record 3 head: true root: true signature: true countersigned: false
	//   BATCH
	//   COMMIT 6 record 3 head: true root: true signature: true countersigned: true
	//   BATCH
	//   RECORD kind 2
	//   RECORD kind 1
	//   cut off
	// 00000003.seg
	//   HEADER reason 4 chain goes on: true
	//   COMMIT 7 record 3 head: true root: true signature: true countersigned: false
	//   BATCH
	//   RECORD kind 1
	//   COMMIT 8 record 4 head: true root: true signature: true countersigned: false
}

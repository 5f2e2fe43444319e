package mcptool_test

import (
	"bufio"
	"strings"
	"testing"
)

// talker reads one byte of what it is asked, says more than a pipe holds, and only then reads the rest.
const talker = `head -c 1 >/dev/null
i=0
while [ $i -lt 3000 ]; do
	echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"there is more to say than a pipe holds"}}'
	i=$((i + 1))
done
head -c 1000000 >/dev/null
echo '{"jsonrpc":"2.0","id":"1","result":{}}'
exec cat >/dev/null`

// TestKeeperOfATalker: a server that does not read while it speaks is heard, however much it is asked meanwhile.
func TestKeeperOfATalker(t *testing.T) {
	t.Parallel()
	k := keepShell(t, talker)
	conn := k.dial(t)
	go func() {
		asked := `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"text":"` + strings.Repeat("x", 1<<20) + "\"}}\n"
		_, _ = conn.Write([]byte(asked)) // what fails here is no answer below
	}()

	said := 0
	in := bufio.NewReader(conn)
	for text := ""; !strings.Contains(text, `"result"`); said++ {
		var err error
		if text, err = in.ReadString('\n'); err != nil {
			t.Fatalf("after %d lines: %v", said, err)
		}
	}

	if said != 3002 { // and the keeper's own first
		t.Errorf("got %d lines, want 3002", said)
	}
}

// TestIDsSayTheSame: the answer of a server that writes an id in another way than it was asked is that of the call, also for who comes
// back for it. So does a cancel name its call, however it is written.
func TestIDsSayTheSame(t *testing.T) {
	t.Parallel()
	k := keepShell(t, `read -r a; read -r b; printf '%s\n' '{"jsonrpc":"2.0","id":"key\/1","result":{"is":"a"}}'; while read -r c; do :; done`)
	first := k.dial(t)
	first.say(`{"jsonrpc":"2.0","id":"key/1","method":"tools/call","params":{}}`)
	first.say(`{"jsonrpc":"2.0","id":"key/2","method":"tools/call","params":{}}`)
	first.hear(`"result":{"is":"a"}`)
	_ = first.Close()

	second := k.dial(t)
	second.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"key\u002f2"}}`)
	second.say(`{"jsonrpc":"2.0","id":"key/1","method":"tools/call","params":{}}`)
	second.hear(`"result":{"is":"a"}`)
	second.say(`{"jsonrpc":"2.0","method":"keeper/end"}`)

	if err := <-k.ended; err != nil {
		t.Error(err)
	}
}

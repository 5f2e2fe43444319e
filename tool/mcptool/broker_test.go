package mcptool_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// talker reads one byte of what it is asked, says more than a pipe holds, and only then reads the
// rest.
const talker = `head -c 1 >/dev/null
i=0
while [ $i -lt 3000 ]; do
	echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"there is more to say than a pipe holds"}}'
	i=$((i + 1))
done
head -c 1000000 >/dev/null
echo '{"jsonrpc":"2.0","id":"1","result":{}}'
exec cat >/dev/null`

// TestBrokerOfATalker: a server that does not read while it speaks is heard, however much it is
// asked meanwhile.
func TestBrokerOfATalker(t *testing.T) {
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

	if said != 3002 { // and the broker's own greeting first
		t.Errorf("got %d lines, want 3002", said)
	}
}

// TestIDsSayTheSame: the answer of a server that encodes an id differently than the request is that
// of the call, also for a client that reconnects for it. A cancel also refers to its call, however
// the id is encoded.
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
	second.say(`{"jsonrpc":"2.0","method":"broker/end"}`)

	if err := <-k.ended; err != nil {
		t.Error(err)
	}
}

// TestWhatIsNoMessage: what a server says beside its messages harms no call that runs, whatever it
// looks like.
func TestWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{
		"a parse error without a request": `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`,
		"a log":                           `{"level":"info"}`,
		"a log of a call":                 `{"id":"'$id'","level":"info","error":"none"}`,
		"another version":                 `{"jsonrpc":"1.0","method":"hello"}`,
		"an id that is none":              `{"jsonrpc":"2.0","id":{},"method":"hello"}`,
		"a number":                        `7`,
		"text":                            `Welcome!`,
		"two values":                      `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}} 7`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := keepShell(t, speaks(`say '`+said+`'; `+saysDone))
			if r := run(t, k.does(t, perdure.AtMostOnce), "k"); !r.IsSuccess() {
				t.Errorf("got %s %q", r.ErrorKind, r.Text)
			}
		})
	}
}

// TestAnswerThatIsNotQuiteRight: an answer that breaks the format ends its call with what it says;
// those beside it go on.
func TestAnswerThatIsNotQuiteRight(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ said, want string }{
		"no text":     {`{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"\xff"}]}}`, "xff"},
		"no error":    {`{"jsonrpc":"2.0","id":"'$id'","error":"it failed"}`, "it failed"},
		"its id last": {`{"result":{"content":[{"type":"text","text":"\xff"}]},"id":"'$id'","jsonrpc":"2.0"}`, "xff"},
		"cut off":     {`{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"the begi`, "the begi"},
	} {
		said := one.said
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said = strings.ReplaceAll(strings.ReplaceAll(said, `\\xff`, "\xff"), "'$id'", "b/1")
			k := keepShell(t, speaks(`calls=$calls$id; [ "$calls" = a/1b/1 -o "$calls" = b/1a/1 ] && say '`+said+`' && say '{"jsonrpc":"2.0","id":"a/1","result":{"content":[]}}'`))
			does := k.does(t, perdure.AtMostOnce)
			beside := make(chan tool.Result, 1) // of one call
			go func() { beside <- run(t, does, "a") }()

			if r := run(t, does, "b"); r.ErrorKind != "" || !strings.Contains(textOf(r), one.want) {
				t.Errorf("got %s %q", r.ErrorKind, textOf(r))
			}

			if r := <-beside; !r.IsSuccess() {
				t.Errorf("the other got %s %q", r.ErrorKind, r.Text)
			}
		})
	}
}

// TestAnswerThatIsTooLong: one that is longer than a message may be ends its own call, and one of a
// good length is handed on.
func TestAnswerThatIsTooLong(t *testing.T) {
	t.Parallel()
	long := func(bytes int) string {
		return `printf '%s' '{"jsonrpc":"2.0","id":"'$id'","result":{"content":[{"type":"text","text":"'; head -c ` + strconv.Itoa(bytes) + ` /dev/zero | tr '\0' x; say '"}]}}'`
	}
	k := keepShell(t, speaks(`case $id in long/*) `+long(17<<20)+` ;; *) `+long(2<<20)+` ;; esac`))
	does := k.does(t, perdure.AtMostOnce)

	if r := run(t, does, "long"); r.ErrorKind != "" || !strings.Contains(textOf(r), "16 MiB") {
		t.Errorf("got %s %q", r.ErrorKind, textOf(r))
	}
	if r := run(t, does, "good"); !r.IsSuccess() {
		t.Errorf("got %s %q", r.ErrorKind, r.Text)
	}
}

// TestWhoIsGreetedIsServed: a broker that is about to end still serves connected clients. A new
// client finds no broker, and starts another one.
func TestWhoIsGreetedIsServed(t *testing.T) {
	t.Parallel()
	k := keepShell(t, speaks("sleep 0.5; "+saysDone))
	first := k.dial(t)
	first.hear("born")
	first.say(`{"jsonrpc":"2.0","method":"broker/end"}`)

	second, err := net.Dial("unix", k.socket)
	if err != nil {
		return // it has ended
	}
	defer second.Close()
	greeted := bufio.NewReader(second)
	if _, err := greeted.ReadString('\n'); err != nil {
		return
	}
	if _, err := second.Write([]byte(`{"jsonrpc":"2.0","id":"k/1","method":"tools/call","params":{}}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if said, err := greeted.ReadString('\n'); err != nil || !strings.Contains(said, "done") {
		t.Errorf("the greeted client got %q, %v", said, err)
	}
}

// TestBrokerEndsSlowly: while its server ends, a broker has already given its socket to another
// one, and leaves it alone.
func TestBrokerEndsSlowly(t *testing.T) {
	t.Parallel()
	over := filepath.Join(t.TempDir(), "over")
	end := "sleep 1; touch " + over
	k := keepShell(t, `trap "`+end+`; exit 0" INT; `+speaks(saysDone)+"; "+end)
	first := k.dial(t)
	first.say(`{"jsonrpc":"2.0","method":"broker/end"}`)
	for limit := time.Now().Add(patience); ; {
		if _, err := os.Stat(k.socket); err != nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("it lets others come")
		}
		<-time.After(time.Millisecond)
	}
	if _, err := os.Stat(over); err == nil {
		t.Fatal("it let others come until its server had ended")
	}

	next, err := net.Listen("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := <-k.ended; err != nil {
		t.Error(err)
	}

	if _, err := os.Stat(k.socket); err != nil {
		t.Errorf("the place of the next one: %v", err)
	}
}

// textOf is what a result says, whether it is an error or not.
func textOf(r tool.Result) string { return fmt.Sprintf("%s %s", r.Text, r.Value) }

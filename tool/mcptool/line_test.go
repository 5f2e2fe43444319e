package mcptool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

// TestLines: each line is returned unchanged, including those after a long one, of which only the
// ends are returned.
func TestLines(t *testing.T) {
	t.Parallel()
	long := "begin" + strings.Repeat("x", maxLine) + "end"
	in := bufio.NewReader(strings.NewReader("one\n" + long + "\n\ntwo\nhalf"))
	for i, want := range []struct {
		begin, end string
		err        error
	}{{"one", "one", nil}, {"begin", "end", errTooLong}, {"", "", nil}, {"two", "two", nil}, {"", "", io.EOF}} {
		text, err := nextLine(in)
		if !errors.Is(err, want.err) || !bytes.HasPrefix(text, []byte(want.begin)) || !bytes.HasSuffix(text, []byte(want.end)) || len(text) > 2*edge {
			t.Errorf("line %d: got %d bytes %.20q, %v, want %v", i, len(text), text, err, want)
		}
	}
}

// endless is a line without an end, of a length.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	e.left -= n
	return n, nil
}

// TestLongLinesTakeLittle: the memory for a line is bounded, whatever its length. Not parallel,
// since it counts allocations.
func TestLongLinesTakeLittle(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := nextLine(bufio.NewReaderSize(&endless{1 << 30}, 64<<10)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 12*maxLine {
		t.Errorf("it took %d MiB", took>>20)
	}
}

// FuzzLine: whatever a server sends, a forwarded message has a method or is an answer, and any
// other is no answer to a request unless its ends identify the request.
func FuzzLine(f *testing.F) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":"k\/1","result":{}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, `{"level":"info"}`, `[]`,
		`{"result":"` + "\xff" + `","id":7,"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":{},"method":"x"}`, `{"jsonrpc":"2.0","method":"x"} 7`, "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readLine(bytes.Clone(text))
		if err == nil && m.method == "" && !m.id.IsValid() && !bytes.Contains(text, []byte(`"method"`)) {
			t.Errorf("%q is forwarded, and answers no request", text)
		}
		if id, ok := answeredBy(text); ok && !id.IsValid() {
			t.Errorf("%q answers no request", text)
		}
	})
}

package chaos

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

// LedgerVariable names the environment variable with the address of the ledger, a port of this machine. A command in the
// sandbox of its workspace reaches that, and no socket that is a file.
const LedgerVariable = "PERDURE_LEDGER"

// written is what the ledger answers when a line is on disk.
const written = "written"

// ledgerTime bounds one line, from its first byte to the answer.
const ledgerTime = 30 * time.Second

// maxLine bounds a line, in bytes.
const maxLine = 64 << 10

// Ledger is the outside ledger of effects: a file that lines are added to through a port. It is to run in a process
// of its own that nobody kills.
type Ledger struct {
	Path string // of the file

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// Run takes lines until ctx ends. Each line is one effect as JSON, and is answered with "written" when it is on disk,
// or with what is wrong with it. ready is called with its address when effects can write.
func (l *Ledger) Run(ctx context.Context, ready func(addr string)) error {
	file, err := os.OpenFile(l.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer file.Close()
	l.file = file
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open the ledger's port: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // Accept says it
	defer stop()
	ready(listener.Addr().String())
	var group sync.WaitGroup
	defer group.Wait()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve the ledger: %w", err)
		}
		group.Go(func() { l.serve(ctx, conn) })
	}
}

// serve takes the lines of one connection.
func (l *Ledger) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		answer := written
		if err := l.add(lines.Bytes()); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := fmt.Fprintln(conn, answer); err != nil {
			return // whoever wrote it was killed; the line stands
		}
	}
}

// add writes one line and syncs it.
func (l *Ledger) add(text []byte) error {
	var line Line
	if err := perdure.DecodeJSON(bytes.TrimSpace(text), &line); err != nil {
		return fmt.Errorf("no line of a ledger: %w", err)
	}
	if line.Effect == "" && line.Call == "" {
		return fmt.Errorf("%w line: it names neither an effect nor a call_id", perdure.Invalid)
	}
	line.At = time.Now().UTC()
	whole, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(whole, '\n')); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return l.file.Sync()
}

// Enter writes an effect into the ledger at an address and returns when it is on disk. It is what an effect calls,
// before it returns. After an error the line may or may not stand there.
func Enter(ctx context.Context, addr string, line Line) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("reach the ledger: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write to the ledger: %w", err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return fmt.Errorf("wait for the ledger: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != written {
		return errors.New("the ledger refuses a line: " + answer)
	}
	return nil
}

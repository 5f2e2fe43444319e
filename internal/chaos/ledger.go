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

// LedgerVariable is the environment variable with the address of the ledger, a port of this
// machine. A sandboxed command can reach a port, but not a Unix socket outside its workspace.
const LedgerVariable = "PERDURE_LEDGER"

// acknowledgement is the response of the ledger when a line is on disk.
const acknowledgement = "written"

// ledgerTime limits the processing of one line.
const ledgerTime = 30 * time.Second

// maxLine is the maximum length of a line in bytes.
const maxLine = 64 << 10

// Ledger is the external ledger of effects: a file to which a server appends lines. It must run in
// a process of its own, which is never killed.
type Ledger struct {
	Path string // of the file

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// Run accepts lines until ctx ends. Each line is one effect as JSON. The response is "written" when
// it is on disk, or an error message. Run calls ready with its address when it accepts lines.
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
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() }) // Accept then returns an error
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

// serve reads the lines of one connection.
func (l *Ledger) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		answer := acknowledgement
		if err := l.add(lines.Bytes()); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		if _, err := fmt.Fprintln(conn, answer); err != nil {
			return // the client was killed; the line stays
		}
	}
}

// add appends one line and syncs it.
func (l *Ledger) add(text []byte) error {
	var line Line
	if err := perdure.DecodeJSON(bytes.TrimSpace(text), &line); err != nil {
		return fmt.Errorf("decode line: %w", err)
	}
	if line.Effect == "" && line.Call == "" {
		return fmt.Errorf("%w line: it has neither an effect nor a call_id", perdure.Invalid)
	}
	line.At = time.Now().UTC()
	encoded, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(encoded, '\n')); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return l.file.Sync()
}

// AppendLine writes an effect to the ledger at an address and returns when it is on disk. An effect
// calls it before it returns. After an error the line may or may not be written.
func AppendLine(ctx context.Context, addr string, line Line) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTime)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("connect to the ledger: %w", err)
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
	if answer = strings.TrimSpace(answer); answer != acknowledgement {
		return errors.New("the ledger refused the line: " + answer)
	}
	return nil
}

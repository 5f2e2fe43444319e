package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/perdure/perdure"
)

// maxServerOutput is how much of the log of an MCP server is searched for its last message.
const maxServerOutput = 16 << 10

// lookCommand reports a command that does not exist. The process that keeps a server would report
// it, too, but to its log.
func lookCommand(command []string) error {
	if len(command) == 0 {
		return nil
	}
	_, err := exec.LookPath(command[0])
	if err == nil || errors.Is(err, exec.ErrDot) {
		return nil
	}
	if cause := (*exec.Error)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	return fmt.Errorf("%w command: %s: %w", perdure.Invalid, command[0], err)
}

// sizeOf returns the size of a file; 0: there is none.
func sizeOf(path string) int64 {
	if found, err := os.Stat(path); err == nil {
		return found.Size()
	}
	return 0
}

// withOutput adds to the error of a server the last message that it has written to its log since it
// was started, which is often the cause.
func withOutput(err error, log string, from int64) error {
	if err == nil {
		return nil
	}
	if said := lastMessage(log, from); said != "" {
		return fmt.Errorf("%w; its last message: %s", err, said)
	}
	return err
}

// lastMessage returns the last line that a server has written to its log after an offset; empty: it
// has written none. The process that keeps the server alive writes its own messages after that; the
// first of them counts where there is nothing else.
func lastMessage(log string, from int64) string {
	file, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer file.Close()
	from = max(from, sizeOf(log)-maxServerOutput)
	text, _ := io.ReadAll(io.NewSectionReader(file, from, maxServerOutput)) // a part is enough
	last := ""
	for line := range bytes.Lines(text) {
		said := strings.TrimSpace(string(line))
		if own, ok := strings.CutPrefix(said, "perdure: "); ok {
			if last == "" {
				last = own
			}
			break
		}
		if said != "" && !strings.HasPrefix(said, `{"time":`) { // a log line of that process
			last = said
		}
	}
	runes := []rune(last)
	return string(runes[:min(len(runes), 300)])
}

package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// The pipe with the secrets of a command: its descriptor in the supervisor, and the environment
// variable that says that there is one.
const (
	secretsFD       = 3
	secretsVariable = "PERDURE_SUPERVISE_SECRETS"
)

// maxSecretBytes limits what the pipe passes on.
const maxSecretBytes = 4 << 20

// secretPipe passes the secrets of a command to its supervisor. The zero value has none.
type secretPipe struct {
	reader *os.File // for the supervisor; nil: there are no secrets
	writer *os.File
	sent   sync.WaitGroup
}

// newSecretPipe begins to write the secrets. A supervisor that reads them to their end has all of
// them, or an error.
func newSecretPipe(secrets []string) (*secretPipe, error) {
	p := &secretPipe{}
	if len(secrets) == 0 {
		return p, nil
	}
	text := encodeSecrets(secrets)
	if len(text) > maxSecretBytes {
		return nil, fmt.Errorf("they have %d bytes; at most %d are possible", len(text), maxSecretBytes)
	}
	var err error
	if p.reader, p.writer, err = os.Pipe(); err != nil {
		return nil, err
	}
	p.sent.Go(func() { // ends when the supervisor has read everything, or by close
		_, _ = p.writer.Write(text) // the supervisor notices an incomplete text
		_ = p.writer.Close()
	})
	return p, nil
}

// launched is called when the supervisor has the pipe, or never will.
func (p *secretPipe) launched() {
	if p.reader != nil {
		_ = p.reader.Close()
	}
}

// close ends the writing, and waits for that.
func (p *secretPipe) close() {
	if p.reader == nil {
		return
	}
	_, _ = p.reader.Close(), p.writer.Close() // both may be closed already
	p.sent.Wait()
}

// readSecrets returns the secrets that the starter of this supervisor passes; it has to be called
// before the inherited descriptors are closed. An incomplete text is an error: its writer is dead.
func readSecrets() ([]string, error) {
	if os.Getenv(secretsVariable) == "" {
		return nil, nil
	}
	pipe := os.NewFile(secretsFD, "secrets")
	if pipe == nil {
		return nil, errors.New("there is no pipe")
	}
	text, err := io.ReadAll(io.LimitReader(pipe, maxSecretBytes+1))
	if err = errors.Join(err, pipe.Close()); err != nil {
		return nil, err
	}
	return decodeSecrets(text)
}

// encodeSecrets returns the number of variables and the variables, each with a zero byte at its
// end.
func encodeSecrets(secrets []string) []byte {
	text := append(strconv.AppendInt(nil, int64(len(secrets)), 10), 0)
	for _, s := range secrets {
		text = append(append(text, s...), 0)
	}
	return text
}

// decodeSecrets is the inverse of encodeSecrets. Its error shows nothing of the text.
func decodeSecrets(text []byte) ([]string, error) {
	parts := strings.Split(string(text), "\x00")
	count, err := strconv.Atoi(parts[0])
	if err != nil || count != len(parts)-2 || parts[len(parts)-1] != "" {
		return nil, errors.New("the text is incomplete")
	}
	return parts[1 : len(parts)-1], nil
}

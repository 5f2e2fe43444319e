package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"
	"time"
)

// trace records commits and answers in order. Ids are numbered in the order of their appearance.
type trace struct {
	began time.Time
	sum   hash.Hash
	lines []string
	ids   map[string]string
	count map[string]int // the number of ids, by prefix
}

func newTrace() *trace {
	return &trace{began: time.Now(), sum: sha256.New(), ids: map[string]string{}, count: map[string]int{}}
}

// add adds a line.
func (t *trace) add(format string, args ...any) {
	line := fmt.Sprintf("%s ", time.Since(t.began)) + t.number(fmt.Sprintf(format, args...))
	t.sum.Write([]byte(line + "\n"))
	t.lines = append(t.lines, line)
}

// digest returns the trace hash.
func (t *trace) digest() string { return hex.EncodeToString(t.sum.Sum(nil)) }

// hexDigits is the number of digits after the prefix of an id.
const hexDigits = 32

// number replaces each id by its number.
func (t *trace) number(text string) string {
	var b strings.Builder
	done := 0
	for i := 0; i+hexDigits < len(text); i++ {
		if text[i] != '_' || !isID(text[i+1:]) {
			continue
		}
		start := i
		for start > done && text[start-1] >= 'a' && text[start-1] <= 'z' {
			start--
		}
		end := i + 1 + hexDigits
		b.WriteString(text[done:start])
		b.WriteString(t.short(text[start:i], text[start:end]))
		done, i = end, end-1
	}
	b.WriteString(text[done:])
	return b.String()
}

func (t *trace) short(prefix, id string) string {
	name, ok := t.ids[id]
	if !ok {
		t.count[prefix]++
		name = prefix + "#" + strconv.Itoa(t.count[prefix])
		t.ids[id] = name
	}
	return name
}

// isID reports whether text starts with the digits of an id, and no further digit follows.
func isID(text string) bool {
	for i := range hexDigits {
		if !isHex(text[i]) {
			return false
		}
	}
	return len(text) == hexDigits || !isHex(text[hexDigits])
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

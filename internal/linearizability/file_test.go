package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// TestR17Files lets clients read, write, compare and set, and remove the same files of a session.
func TestR17Files(t *testing.T) {
	t.Parallel()
	check(t, files(), histories, operations)
}

// The operations on a file besides read.
const (
	write         = "write"
	compareAndSet = "compare_and_set"
	remove        = "remove"
)

// fileRequest is one operation on a file.
type fileRequest struct {
	Key  int
	What string
	Word string // the new content
	If   string // compareAndSet: the content that the client last saw
}

func (r fileRequest) key() int    { return r.Key }
func (r fileRequest) reads() bool { return r.What == read }

// fileAnswer is the result of an operation.
type fileAnswer struct {
	Refused perdure.Kind
	Created bool   // write
	Removed bool   // remove
	Content string // read
}

func (a fileAnswer) yes() bool { return a.Refused == "" }

// files is the game of values with compare-and-set. The model's state is the content; empty: no
// such file.
func files() game {
	return game{
		name: "files",
		model: porcupine.Model{
			Partition: partition, Init: func() any { return "" }, DescribeOperation: describe,
			Step: func(state, input, output any) (bool, any) {
				want, next := afterFile(state.(string), input.(fileRequest))
				got, known := output.(fileAnswer)
				return !known || got == want, next
			},
		},
		start: func(session perdure.SessionID, keys int) play {
			p := &filePlay{session: session}
			for range clients {
				p.known = append(p.known, make([]string, keys))
			}
			return p
		},
	}
}

// afterFile is a second implementation of the rules of files.
func afterFile(content string, r fileRequest) (fileAnswer, string) {
	there := content != ""
	switch {
	case r.What == read && !there:
		return fileAnswer{Refused: perdure.NotFound}, content
	case r.What == read:
		return fileAnswer{Content: content}, content
	case r.What == write:
		return fileAnswer{Created: !there}, r.Word
	case r.What == remove:
		return fileAnswer{Removed: there}, ""
	case !there || content != r.If:
		return fileAnswer{Refused: perdure.Conflict}, content
	default:
		return fileAnswer{}, r.Word
	}
}

// filePlay is one history of files.
type filePlay struct {
	session perdure.SessionID
	known   [][]string // by client and key: the content as last read
}

func (p *filePlay) next(client, key int, chance *rand.Rand, word string) request {
	r := fileRequest{Key: key, Word: word}
	switch draw := chance.IntN(100); {
	case draw < 30:
		r.What, r.Word = read, ""
	case draw < 40 || p.known[client][key] == "":
		r.What = write
	case draw < 47:
		r.What, r.Word = remove, ""
	default:
		r.What, r.If = compareAndSet, p.known[client][key]
	}
	return r
}

func (p *filePlay) do(ctx context.Context, st store.Store, client int, asked request) (any, error) {
	r := asked.(fileRequest)
	all := sessionfile.New(st, p.session, false)
	name := fmt.Sprintf("/value %d", r.Key)
	var answer fileAnswer
	var err error
	switch r.What {
	case read:
		var found tool.File
		found, err = all.Read(ctx, name)
		answer.Content = string(found.Content)
	case remove:
		answer.Removed, err = all.Remove(ctx, name, false)
	case write:
		answer.Created, err = all.Write(ctx, tool.FileWrite{Path: name, Content: []byte(r.Word)})
	default:
		expected := []byte(r.If)
		answer.Created, err = all.Write(ctx, tool.FileWrite{Path: name, Content: []byte(r.Word), IfContent: &expected})
	}
	for _, kind := range []perdure.Kind{perdure.NotFound, perdure.Conflict} {
		if errors.Is(err, kind) {
			return fileAnswer{Refused: kind}, nil
		}
	}
	if err == nil {
		p.known[client][r.Key] = r.Word + answer.Content // one of them is empty
	}
	return answer, err
}

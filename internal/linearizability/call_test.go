package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// TestR17Calls lets clients claim, take over, settle, resolve and read the same calls.
func TestR17Calls(t *testing.T) {
	t.Parallel()
	check(t, calls(), histories, operations)
}

// The operations on a call.
const (
	claim   = "claim"
	read    = "read"
	take    = "take"
	settle  = "settle"
	resolve = "resolve"
)

// callRow is a call in the model. The zero value was never claimed.
type callRow struct {
	State      perdure.CallState
	Token      perdure.Token
	Executions int
	Result     string
}

// callRequest is one operation on a call.
type callRequest struct {
	Key   int
	What  string
	Token perdure.Token     // claimed with, settled under, or the new owner's
	Old   callRow           // take: the row as the client last saw it
	Live  bool              // claim: whether the found owner is alive
	To    perdure.CallState // settle, resolve
	Word  string            // settle, resolve: the result
}

func (r callRequest) key() int    { return r.Key }
func (r callRequest) reads() bool { return r.What == read }

// callAnswer is the result of an operation.
type callAnswer struct {
	Outcome perdure.ClaimOutcome // of a claim
	Row     callRow              // claim, read
	Refused perdure.Kind         // empty: it succeeded
}

func (a callAnswer) yes() bool {
	return a.Refused == "" && (a.Outcome == "" || a.Outcome == perdure.Claimed)
}

// calls is the game of the call ledger, with one row for each key.
func calls() game {
	return game{
		name: "calls",
		model: porcupine.Model{
			Partition: partition, Init: func() any { return callRow{} }, DescribeOperation: describe,
			Step: func(state, input, output any) (bool, any) {
				want, next := state.(callRow).after(input.(callRequest))
				got, known := output.(callAnswer)
				return !known || got == want, next
			},
		},
		start: func(session perdure.SessionID, keys int) play {
			p := &callPlay{session: session}
			for range clients {
				p.known = append(p.known, make([]callRow, keys))
				p.last = append(p.last, callRequest{})
			}
			return p
		},
	}
}

// after is a second implementation of the ledger's rules: the result of a request and the row after
// it.
func (c callRow) after(r callRequest) (callAnswer, callRow) {
	switch r.What {
	case read:
		return c.read(), c
	case claim:
		return c.claim(r)
	case take:
		if c.State != perdure.CallRunning || c.Token != r.Old.Token {
			return callAnswer{Refused: perdure.Lost}, c
		}
		c.Token, c.Executions = r.Token, r.Old.Executions+1
		return callAnswer{}, c
	case settle:
		switch {
		case c.State == "":
			return callAnswer{Refused: perdure.NotFound}, c
		case c.Token == r.Token && c.State == r.To && c.Result == r.Word:
			return callAnswer{}, c
		case c.Token != r.Token || c.State != perdure.CallRunning:
			return callAnswer{Refused: perdure.Lost}, c
		}
		c.State, c.Result = r.To, r.Word
		return callAnswer{}, c
	}
	return c.resolve(r)
}

func (c callRow) read() callAnswer {
	if c.State == "" {
		return callAnswer{Refused: perdure.NotFound}
	}
	return callAnswer{Row: c}
}

func (c callRow) claim(r callRequest) (callAnswer, callRow) {
	outcome := perdure.ClaimAbandoned
	switch {
	case c.State == "":
		outcome, c = perdure.Claimed, callRow{State: perdure.CallRunning, Token: r.Token, Executions: 1}
	case c.State == perdure.CallSettled:
		outcome = perdure.AlreadySettled
	case c.State == perdure.CallUnknown:
		outcome = perdure.AlreadyUnknown
	case c.Token == r.Token:
		outcome = perdure.Claimed
	case r.Live:
		outcome = perdure.ClaimConflict
	}
	return callAnswer{Outcome: outcome, Row: c}, c
}

func (c callRow) resolve(r callRequest) (callAnswer, callRow) {
	switch {
	case c.State == "":
		return callAnswer{Refused: perdure.NotFound}, c
	case c.State != perdure.CallUnknown:
		return callAnswer{Refused: perdure.Conflict}, c
	case r.To == perdure.CallRunning:
		return callAnswer{}, callRow{State: r.To, Token: r.Token, Executions: r.Old.Executions + 1}
	}
	c.State, c.Result = r.To, r.Word
	return callAnswer{}, c
}

// callPlay is one history of calls.
type callPlay struct {
	session perdure.SessionID
	known   [][]callRow   // by client and key: the row as last read
	last    []callRequest // by client: its last operation, to be repeated
}

// next draws a request. A client often repeats its last operation, as after a lost result.
func (p *callPlay) next(client, key int, chance *rand.Rand, word string) request {
	r := callRequest{Key: key, Old: p.known[client][key], Token: perdure.Token(word)}
	switch draw := chance.IntN(100); {
	case draw < 10 && p.last[client].What != "":
		return p.last[client]
	case draw < 30 || r.Old.State == "":
		r.What, r.Live = claim, chance.IntN(2) == 0
	case draw < 55:
		r.What, r.Token = read, ""
	case draw < 75:
		r.What = take
	case draw < 90:
		r.What, r.Token, r.To, r.Word = settle, r.Old.Token, perdure.CallUnknown, word
		if chance.IntN(3) == 0 {
			r.To = perdure.CallSettled
		}
	default:
		r.What, r.To, r.Word = resolve, perdure.CallSettled, word
		if chance.IntN(4) > 0 {
			r.To, r.Word = perdure.CallRunning, ""
		}
	}
	p.last[client] = r
	return r
}

// do executes an operation on the store, and records the row that the client has learned.
func (p *callPlay) do(ctx context.Context, st store.Store, client int, asked request) (any, error) {
	r := asked.(callRequest)
	var answer callAnswer
	key := perdure.CallKey{Session: p.session, Call: perdure.CallID(fmt.Sprintf("call %d", r.Key))}
	var err error
	if r.What == read {
		err = st.View(ctx, func(rd store.Reader) error {
			row, err := rd.Calls().Get(key)
			answer = callAnswer{Row: rowOf(row)}
			return err
		})
	} else {
		err = st.InTx(ctx, func(tx store.Tx) (err error) {
			answer, err = p.write(tx, key, r)
			return err
		})
	}
	for _, kind := range []perdure.Kind{perdure.NotFound, perdure.Lost, perdure.Conflict} {
		if errors.Is(err, kind) {
			return callAnswer{Refused: kind}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	seen := &p.known[client][r.Key]
	switch {
	case answer.Row.State != "":
		*seen = answer.Row
	case r.What == take, r.What == resolve && r.To == perdure.CallRunning:
		*seen = callRow{State: perdure.CallRunning, Token: r.Token, Executions: r.Old.Executions + 1}
	}
	return answer, nil
}

func (p *callPlay) write(tx store.Tx, key perdure.CallKey, r callRequest) (callAnswer, error) {
	next := perdure.Call{
		Key: key, Tool: "charge", Args: []byte(`{}`), Fingerprint: "sha256:1", Class: perdure.AtMostOnce,
		Token: r.Token, Worker: "worker_1", Epoch: 1, Executions: r.Old.Executions + 1,
	}
	switch r.What {
	case claim:
		outcome, row, err := tx.Calls().Claim(next, func(perdure.WorkerID) bool { return r.Live })
		return callAnswer{Outcome: outcome, Row: rowOf(row)}, err
	case take:
		return callAnswer{}, tx.Calls().TakeOver(perdure.Call{Key: key, Token: r.Old.Token}, next)
	case settle:
		return callAnswer{}, tx.Calls().Settle(key, r.Token, r.To, resultOf(r.Word))
	}
	next.State = r.To
	if r.To == perdure.CallSettled {
		result := resultOf(r.Word)
		next.Result = &result
	}
	return callAnswer{}, tx.Calls().Resolve(next, "operator")
}

func rowOf(c perdure.Call) callRow {
	row := callRow{State: c.State, Token: c.Token, Executions: c.Executions}
	if c.Result != nil {
		_ = perdure.DecodeJSON(c.Result.Result, &row.Result) // another shape is another result, and so detected
	}
	return row
}

func resultOf(word string) perdure.ToolResult {
	return perdure.ToolResult{Result: []byte(`"` + word + `"`)}
}

package modelhistory

import (
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

// maxName is the longest name of a tool that every server accepts.
const maxName = 64

// noName replaces the name of a call without one.
const noName = "unnamed_tool"

// callOf returns a call. known says whether it is known which family made it, and own whether that
// is the family of the request.
func callOf(c perdure.ToolCall, known, own bool) Call {
	call := Call{Name: name(c.Name), Input: object(c.Arguments), key: c.ID}
	switch {
	case own:
		call.Fields, call.given = c.ProviderFields, c.ProviderCallID
		if call.given == "" {
			call.given = string(c.ID)
		}
	case !known:
		call.ID = string(c.ID)
	}
	return call
}

// setIDs gives each call its id, and its result the same. A provider's own id goes back to it
// unchanged, because it may contain state, unless an earlier call has it.
func setIDs(turns []Turn, rules Rules) {
	used := map[string]bool{}
	for i := range turns {
		if !turns[i].Agent {
			continue
		}
		var ids []string
		for _, a := range turns[i].Answers {
			for j := range a.Calls {
				c := &a.Calls[j]
				switch {
				case c.given != "" && rules.OwnID(c.given) && !used[c.given]:
					c.ID = c.given
				case c.given == "" && c.ID != "" && rules.OtherID(c.ID) && !used[c.ID]:
				default:
					c.ID = substitute(string(c.key), used)
				}
				used[c.ID] = true
				ids = append(ids, c.ID)
			}
		}
		for j, id := range ids { // the turn after an agent's is the user's, with a result for each call
			turns[i+1].Results[j].ID = id
		}
	}
}

// substituteLength is the length of the ids that Mistral demands. Every other server accepts them.
const substituteLength = 9

// substitute returns an id of letters and digits for a call. It depends on the earlier calls only,
// so it stays the same while the conversation grows.
func substitute(key string, used map[string]bool) string {
	for n := 0; ; n++ {
		sum := sha256.Sum256([]byte(key + "\x00" + strconv.Itoa(n)))
		text := new(big.Int).SetBytes(sum[:]).Text(62)
		id := text[len(text)-min(len(text), substituteLength):]
		if len(id) == substituteLength && !used[id] {
			return id
		}
	}
}

// IsShortID reports whether an id has the form that Mistral demands.
func IsShortID(id string) bool { return len(id) == substituteLength && isPlain(id, "") }

// IsPlainID reports whether an id consists of the characters that every other server accepts, and
// has at most the given length.
func IsPlainID(id string, maxLength int) bool {
	return id != "" && len(id) <= maxLength && isPlain(id, "_-")
}

// isPlain reports whether a text consists of letters, digits and some other characters.
func isPlain(text, others string) bool {
	for _, r := range text {
		if !isLetterOrDigit(r) && !strings.ContainsRune(others, r) {
			return false
		}
	}
	return true
}

func isLetterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// name returns the name of a call in a form that every server accepts. A model can invent any name.
func name(called string) string {
	plain := strings.Map(func(r rune) rune {
		if isLetterOrDigit(r) || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, called)
	if plain == "" {
		return noName
	}
	return plain[:min(len(plain), maxName)]
}

// object returns arguments as an object. The check of the arguments has refused everything else
// before the call ran, so it only has to be shown.
func object(args json.RawMessage) json.RawMessage {
	text := strings.TrimSpace(string(args))
	if text == "" || text == "null" {
		return json.RawMessage("{}")
	}
	canonical, err := strictjson.Canonical(json.RawMessage(text))
	switch {
	case err != nil || !json.Valid([]byte(text)):
		quoted, err := json.Marshal(text)
		if err != nil {
			return json.RawMessage("{}")
		}
		return json.RawMessage(`{"arguments":` + string(quoted) + `}`)
	case canonical[0] == '{':
		return json.RawMessage(text)
	}
	return json.RawMessage(`{"arguments":` + text + `}`)
}

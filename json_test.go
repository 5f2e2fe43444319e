package perdure_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

// TestDecodeJSON wants a fault in the text to be Invalid, with the words of the strict decoder, and
// an error of the caller not to be.
func TestDecodeJSON(t *testing.T) {
	t.Parallel()
	type order struct {
		Name string `json:"name"`
	}
	for name, decode := range map[string]func([]byte, any) error{"strict": perdure.DecodeJSON, "known": perdure.DecodeKnownJSON} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got order
			if err := decode([]byte(`{"name":"a"}`), &got); err != nil || got.Name != "a" {
				t.Errorf("got %+v, %v", got, err)
			}
			err := decode([]byte(`{"name":"a","name":"b"}`), &got)
			var fault *strictjson.Fault
			if !errors.Is(err, perdure.Invalid) || !errors.As(err, &fault) || fault.Pointer != "/name" {
				t.Errorf("a duplicate key: got %v, want Invalid at /name", err)
			}
			if want := "invalid JSON at /name: duplicate key"; err.Error() != want {
				t.Errorf("got %q, want %q", err, want)
			}
			if err := decode([]byte(`{}`), got); err == nil || errors.Is(err, perdure.Invalid) {
				t.Errorf("no pointer: got %v, want an error that is not Invalid", err)
			}
		})
	}
	if err := perdure.DecodeJSON([]byte(`{"other":1}`), &order{}); !errors.Is(err, perdure.Invalid) {
		t.Errorf("an unknown field: got %v, want Invalid", err)
	}
	if err := perdure.DecodeKnownJSON([]byte(`{"other":1}`), &order{}); err != nil {
		t.Errorf("an unknown field of others: %v", err)
	}
}

// TestFingerprintKind wants the place of the fault in an error that is Invalid.
func TestFingerprintKind(t *testing.T) {
	t.Parallel()
	_, err := perdure.Fingerprint("work", json.RawMessage(`{"a":1,"a":1}`))
	if want := "fingerprint work: invalid JSON at /a: duplicate key"; !errors.Is(err, perdure.Invalid) || err.Error() != want {
		t.Errorf("got %v, want %q, which is Invalid", err, want)
	}
}

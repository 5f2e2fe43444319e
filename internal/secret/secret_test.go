package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
)

// ring makes a keyring in a folder of its own.
func ring(t interface {
	TempDir() string
	Fatal(...any)
}) *Keyring {
	k, err := Create(t.TempDir() + "/keyring")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func places() *rapid.Generator[Place] {
	return rapid.Custom(func(t *rapid.T) Place {
		word := rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00/é")), 0, 4, -1)
		return Place{
			Org: word.Draw(t, "org"), Session: perdure.SessionID(word.Draw(t, "session")), Name: word.Draw(t, "name"),
			Version: int64(rapid.IntRange(1, 3).Draw(t, "version")),
		}
	})
}

// TestSealOpensInItsPlaceOnly is SE1: a value that was sealed for a place opens there and nowhere
// else, however the places are named.
func TestSealOpensInItsPlaceOnly(t *testing.T) {
	t.Parallel()
	k := ring(t)
	rapid.Check(t, func(t *rapid.T) {
		at, other := places().Draw(t, "at"), places().Draw(t, "other")
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed, err := k.Seal(at, plain)
		if err != nil {
			t.Fatal(err)
		}

		got, err := k.Open(at, sealed)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("got %q, %v, want %q", got, err, plain)
		}
		got, err = k.Open(other, sealed)
		if same := at == other; same != (err == nil) || !same && (!errors.Is(err, Tampered) || got != nil) {
			t.Fatalf("sealed for %+v, opened at %+v: %q, %v", at, other, got, err)
		}
		if len(plain) > 7 && bytes.Contains(sealed, plain) {
			t.Fatal("the plain value stands in the record")
		}
	})
}

// TestSealIsFresh wants no two records of one value to be alike, keys and nonces included.
func TestSealIsFresh(t *testing.T) {
	t.Parallel()
	k := ring(t)
	seen := map[string]bool{}
	for range 100 {
		sealed, err := k.Seal(Place{Session: "s", Name: "n", Version: 1}, []byte("the same"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := decode(sealed)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range [][]byte{r.nonce, r.wrapped[:nonceBytes], r.wrapped, r.ciphertext} {
			if seen[string(part)] {
				t.Fatalf("%x came twice", part)
			}
			seen[string(part)] = true
		}
	}
}

// TestDamageIsCorruption cuts a record at every byte, adds to it and flips each of its bits: damage
// is reported as Corrupt.
func TestDamageIsCorruption(t *testing.T) {
	t.Parallel()
	k, at := ring(t), Place{Session: "s", Name: "n", Version: 1}
	sealed, err := k.Seal(at, []byte("a value"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, text []byte) {
		t.Helper()
		if got, err := k.Open(at, text); !errors.Is(err, Corrupt) || got != nil || errors.Is(err, Tampered) || errors.Is(err, UnknownKey) {
			t.Errorf("%s: got %q, %v", what, got, err)
		}
	}
	for n := range sealed {
		try(fmt.Sprintf("cut to %d bytes", n), sealed[:n])
	}
	try("a byte more", append(bytes.Clone(sealed), 0))
	for bit := range 8 * len(sealed) {
		flipped := bytes.Clone(sealed)
		flipped[bit/8] ^= 1 << (bit % 8)
		try(fmt.Sprintf("bit %d flipped", bit), flipped)
	}
}

// TestForgeryIsTampering flips each bit of a sealed value and corrects the checksum, as an attacker
// could who can write to the database.
func TestForgeryIsTampering(t *testing.T) {
	t.Parallel()
	k, at := ring(t), Place{Session: "s", Name: "n", Version: 1}
	sealed, err := k.Seal(at, []byte("a value"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := decode(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]*[]byte{"wrapped key": &r.wrapped, "nonce": &r.nonce, "ciphertext": &r.ciphertext} {
		whole := *part
		for bit := range 8 * len(whole) {
			*part = bytes.Clone(whole)
			(*part)[bit/8] ^= 1 << (bit % 8)
			if got, err := k.Open(at, r.encode()); !errors.Is(err, Tampered) || got != nil {
				t.Fatalf("%s, bit %d: got %q, %v", name, bit, got, err)
			}
		}
		*part = whole
	}
	other, err := k.Seal(at, []byte("another"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := decode(other)
	if err != nil {
		t.Fatal(err)
	}
	r.wrapped = o.wrapped // of the same place
	if _, err := k.Open(at, r.encode()); !errors.Is(err, Tampered) {
		t.Errorf("with the key of another value: %v", err)
	}
}

// TestEarlierVersionDoesNotOpen is S19: a record that is put back in the place of a later one is
// tampering.
func TestEarlierVersionDoesNotOpen(t *testing.T) {
	t.Parallel()
	k := ring(t)
	first, err := k.Seal(Place{Session: "s", Name: "n", Version: 1}, []byte("old"))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := k.Open(Place{Session: "s", Name: "n", Version: 2}, first); !errors.Is(err, Tampered) {
		t.Errorf("got %v", err)
	}
}

// TestAnotherRingsKeyIsUnknown wants the wrong ring to say so, and a key that only bears the right
// name to be found out.
func TestAnotherRingsKeyIsUnknown(t *testing.T) {
	t.Parallel()
	k, other, at := ring(t), ring(t), Place{Session: "s", Name: "n", Version: 1}
	sealed, err := k.Seal(at, []byte("a value"))
	if err != nil {
		t.Fatal(err)
	}

	if _, err := other.Open(at, sealed); !errors.Is(err, UnknownKey) || !errors.Is(err, perdure.Unavailable) {
		t.Errorf("got %v", err)
	}
	other.keys[0].id = k.keys[0].id
	if _, err := other.Open(at, sealed); !errors.Is(err, Tampered) || !errors.Is(err, perdure.Invalid) {
		t.Errorf("under the same name: got %v", err)
	}
	if _, err := (*Keyring)(nil).Open(at, sealed); !errors.Is(err, perdure.Unavailable) {
		t.Errorf("without a ring: got %v", err)
	}
	if _, err := (*Keyring)(nil).Seal(at, nil); !errors.Is(err, perdure.Unavailable) {
		t.Errorf("without a ring: got %v", err)
	}
}

// TestKeysAreNeverPrinted wants no verb, encoder or log to show a key, nor an error of a damaged
// ring.
func TestKeysAreNeverPrinted(t *testing.T) {
	t.Parallel()
	k := ring(t)
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, nil))
	text := slog.New(slog.NewTextHandler(&out, nil))
	one := k.keys[0]
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
		fmt.Fprintf(&out, verb+verb+verb+verb, k, one.bytes, &one.bytes, struct{ K *Keyring }{k})
	}
	for _, v := range []any{k, one.bytes, map[string]any{"k": k}} {
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(body)
		log.Info("", "k", v)
		text.Info("", "k", v)
	}

	raw := one.bytes.bytes[:]
	for _, form := range []string{string(raw), fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw), fmt.Sprint(raw), fmt.Sprintf("%d", raw[0:4]), fmt.Sprintf("%#v", raw)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("%q is printed", form)
		}
	}
	if !strings.Contains(out.String(), one.id) {
		t.Error("the ids of keys are to be read")
	}
}

// FuzzOpen: arbitrary bytes are refused without a panic, and a decoded record encodes to the same
// bytes.
func FuzzOpen(f *testing.F) {
	k, at := ring(f), Place{Session: "s", Name: "n", Version: 1}
	sealed, err := k.Seal(at, []byte("a value"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(sealed[:20])
	f.Add([]byte{})
	f.Add([]byte{1, 1, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decode(text)
		if err != nil {
			if !errors.Is(err, Corrupt) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if !bytes.Equal(r.encode(), text) {
			t.Fatalf("%x is written %x", text, r.encode())
		}
		if got, err := k.Open(at, text); (err == nil) != bytes.Equal(text, sealed) {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

// FuzzKeyring wants a file that is no ring to be refused, without a word of it.
func FuzzKeyring(f *testing.F) {
	f.Add([]byte(`{"format":"perdure-keyring","version":1,"current":"a","keys":[{"id":"a","created_at":"2026-01-02T03:04:05Z","key":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}]}`))
	f.Add([]byte(`{"format":"perdure-keyring","version":1,"current":"a","keys":[{"id":"a","key":"MDEy"}]}`))
	f.Add([]byte(`{"format":"other"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parse(text)
		if (err == nil) != (len(keys) > 0) || err != nil && !errors.Is(err, perdure.Invalid) {
			t.Fatalf("got %d keys, %v", len(keys), err)
		}
	})
}

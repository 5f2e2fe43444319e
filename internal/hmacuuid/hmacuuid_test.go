package hmacuuid_test

import (
	"encoding/binary"
	"encoding/hex"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure/internal/hmacuuid"
)

// TestKept pins the bits: a newer version must find what an older one derived.
func TestKept(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	got := hmacuuid.V7([32]byte{1}, at, "perdure/task/1", "session_1", "call-1")
	if want := "01a1fc0be380777bbaf259e0b7caa8a6"; hex.EncodeToString(got[:]) != want {
		t.Errorf("got %x, want %s", got, want)
	}
}

// TestBits has version, variant and time, and wants every part of the input to count.
func TestBits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "secret"))
		ms := rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")
		part := rapid.String().Draw(t, "part")

		v4, v7 := hmacuuid.V4(secret, "a", part), hmacuuid.V7(secret, time.UnixMilli(ms), "a", part)

		if v4[6]>>4 != 4 || v7[6]>>4 != 7 || v4[8]>>6 != 2 || v7[8]>>6 != 2 {
			t.Errorf("version or variant: %x, %x", v4, v7)
		}
		if got := binary.BigEndian.Uint64(append([]byte{0, 0}, v7[:6]...)); got != uint64(ms) {
			t.Errorf("time: got %d, want %d", got, ms)
		}
		if hmacuuid.V4(secret, "b", part) == v4 || hmacuuid.V4(secret, "a", part, "") == v4 || hmacuuid.V4(secret, "a"+part) == v4 {
			t.Error("another input gives the same UUID")
		}
		secret[0]++
		if hmacuuid.V4(secret, "a", part) == v4 {
			t.Error("another secret gives the same UUID")
		}
	})
}

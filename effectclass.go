package perdure

// EffectClass says what recovery may do with a call that was claimed and never settled.
// The zero value is no class; [EffectClass.Valid] refuses it.
type EffectClass string

// The effect classes.
const (
	Pure       EffectClass = "pure"         // changes nothing: run it again
	Idempotent EffectClass = "idempotent"   // twice has the effect of once, under the same key: run it again
	AtMostOnce EffectClass = "at_most_once" // never run again on our own: the outcome is unknown
)

// Valid reports whether c is one of the three classes.
func (c EffectClass) Valid() bool { return c == Pure || c == Idempotent || c == AtMostOnce }

// Repeatable reports whether recovery may run a call of this class again.
func (c EffectClass) Repeatable() bool { return c == Pure || c == Idempotent }

// Stricter returns the more careful of two classes. An unset class counts as at_most_once, so that
// doubt never loosens a claim (BG10, LG15).
func (c EffectClass) Stricter(other EffectClass) EffectClass {
	if c == Pure && other == Pure {
		return Pure
	}
	if c.Repeatable() && other.Repeatable() {
		return Idempotent
	}
	return AtMostOnce
}

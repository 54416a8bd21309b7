package expression_test

import (
	"testing"

	"github.com/tidemark-sessions/tidemark/internal/expression"
)

func TestAnExpressionIsCompiledOnceAndNotBeforeItIsUsed(t *testing.T) {
	expression.WhenNeeded(`(`) // never used: nobody hears of it
	number := expression.WhenNeeded(`^[0-9]+$`)
	if first, second := number(), number(); first != second {
		t.Error("a second use compiled it again")
	}
	if !number().MatchString("12") || number().MatchString("12a") {
		t.Error("it matches something else")
	}
}

func TestAnInvalidExpressionPanicsWhereItIsUsed(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	expression.WhenNeeded(`(`)()
}

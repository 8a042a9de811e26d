"""What tools/findings says of made-up studies: one in which everything published comes out, and one in which nothing does.

    python3 findings_page_test.py
"""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
PATH = pathlib.Path(__file__).resolve().parents[2] / "tools/findings"
LOADER = importlib.machinery.SourceFileLoader("findings", str(PATH))
findings = importlib.util.module_from_spec(importlib.util.spec_from_loader("findings", LOADER))
LOADER.exec_module(findings)

SEEDS = 3


def contender(heads, steps, entropy, gone=0, random=0, accuracy=0.9, budget=1000):
    """`steps` to 99 %; None: never. `gone` and `random`: heads that may go. Seeds differ a little."""
    seeds = []
    for n in range(SEEDS):
        curve = {"within_budget": gone}
        seed = {"accuracy": accuracy + n / 1000 if steps is None else 0.995, "relative_entropy": entropy,
                "relative_entropy_at_equal_loss": 0.4 + n / 100, "relative_entropy_at_equal_steps": 0.6,
                "removal": {"ranked": curve, "by_gradient": curve, "random": [{"within_budget": random}] * 2, "accuracy": 0.9,
                            "ranked_loss": 0.005 * n}}
        if steps is not None:
            seed["steps_to_99_percent"] = steps
        seeds.append(seed)
    return {"heads": heads, "all_heads": heads, "head_dim": 256 // heads, "budget": budget, "seeds": seeds}


def form(roles, scores):
    """A model's training: `scores` by step, 100 apart, and the roles that its heads end with."""
    steps = [{"step": 100 * n, "accuracy": score, "induction": [0, score, score / 2]} for n, score in enumerate(scores)]
    return {"roles": [{"scores": [{"role": role, "score": 0.9, "holds": True}]} for role in roles], "steps": steps,
            "naive_induction_score": scores[-1], "induction_score": scores[-1]}


def anatomy(roles, link, rho, loss):
    """A model of four heads, of which the first does most damage."""
    return {"seed": 1, "rank_correlation": rho, "most_damaging": "0.0",
            "relations": {"subject-verb": {"accuracy": link, "best_offset": 0.3}},
            "roles": [{"head": f"0.{n}", "role": role} for n, role in enumerate(roles)],
            "importance": [{"head": f"0.{n}", "accuracy_loss": loss, "logit": {"mean": 1.0}, "damage_zero": {"mean": 1.0}}
                           for n in range(4)]}


def study(copy, classify, grammar, two_layers, one_layer, each):
    tasks = {name: {"contenders": contenders, "equal_loss": 0.25, "equal_steps": 40, "anatomies": [each] * SEEDS}
             for name, contenders in (("copy", copy), ("classify", classify), ("grammar", grammar))}
    return {"tasks": tasks, "formation": {"two_layers": [two_layers] * SEEDS, "one_layer": [one_layer] * SEEDS,
                                          "fixed_length": [one_layer] * SEEDS,
                                          "knock_outs": [{key: 0.5 for key in findings.SHUT}] * SEEDS}}


def contenders(steps, entropy, gone=0, random=0, accuracy=lambda heads: 0.9):
    return [contender(heads, steps[heads], entropy[:heads] or entropy, gone, random, accuracy(heads)) for heads in (1, 8, 16)]


NEVER = {1: None, 8: None, 16: None}
EVERYTHING = study(contenders({1: 40, 8: 40, 16: None}, [0.1, 0.8] * 8, 4, 1),
                   contenders({1: None, 8: 500, 16: None}, [0.1, 0.8] * 8, 4, 1),
                   contenders(NEVER, [0.1, 0.8] * 8, 4, 1, {1: 0.6, 8: 0.9, 16: 0.8}.get),
                   form(["induction", "previous token"], [0, 0.05, 0.9, 0.9, 0.9, 0.9]), form([], [0, 0, 0.1]),
                   anatomy(["averaging", "separator", "rare token", None], 0.9, 0.9, 0.001))
NOTHING = study(contenders({1: 50, 8: 50, 16: 50}, [0.5] * 16, 1, 2), contenders({1: 500, 8: 500, 16: 500}, [0.5] * 16, 1, 2),
                contenders(NEVER, [0.5] * 16, 1, 2),
                form([], [0, 0.05, 0.1]), form(["induction"], [0, 0.9]), anatomy(["subject-verb"] * 4, 0.3, 0.1, 0.5))


def verdicts(made, text_rho):
    lines = findings.verdicts(made, {"rank_correlation_gradient_zero": text_rho}).splitlines()[2:]
    return [line.split(" | ")[-1].removesuffix(" |").split(":")[0] for line in lines]


class Findings(unittest.TestCase):
    def test_everything_comes_out(self):
        self.assertEqual(verdicts(EVERYTHING, 0.9), ["comes out"] * 11)

    def test_nothing_comes_out(self):
        self.assertEqual(verdicts(NOTHING, 0.1), ["not here"] * 11)

    def test_a_score_that_climbs_all_along_is_no_short_phase(self):
        slow = EVERYTHING | {"formation": EVERYTHING["formation"] | {
            "two_layers": [form(["induction", "previous token"], [0, 0.2, 0.4, 0.6, 0.8, 0.9])] * SEEDS}}
        self.assertEqual(verdicts(slow, 0.9)[3], "partly")
        self.assertIn("100, 500", findings.formation(slow))

    def test_a_score_climbs_from_where_it_begins(self):
        self.assertEqual(findings.rise(form(["induction"], [0.125, 0.15, 0.9, 0.95])), [200, 200])

    def test_more_heads_that_do_no_worse_are_not_too_many(self):
        made = EVERYTHING | {"tasks": EVERYTHING["tasks"] | {"grammar": EVERYTHING["tasks"]["grammar"] | {
            "contenders": contenders(NEVER, [0.1, 0.8] * 8, 4, 1, {1: 0.6, 8: 0.9, 16: 0.9}.get)}}}
        self.assertIn("| partly: sixteen are not too many |", findings.verdicts(made, {"rank_correlation_gradient_zero": 0.9}))

    def test_entropies_are_those_that_can_be_compared(self):
        rows = findings.comparison(EVERYTHING).splitlines()[2:]
        self.assertTrue(rows[1].endswith("| 3 of 3 | 99.5 % | 40 | 0.41 ± 0.01 | 0.60 ± 0.00 |"), rows[1])
        self.assertTrue(rows[2].endswith("| 0 of 3 | 90.0 % to 90.2 % | never | 0.41 ± 0.01 | 0.60 ± 0.00 |"), rows[2])
        self.assertTrue(findings.where_compared(EVERYTHING).startswith("copy: 0.25 nats, step 40; classify"))

    def test_removals_count_shares_of_heads(self):
        rows = findings.removals(EVERYTHING).splitlines()[2:]
        self.assertEqual(rows[0], "| copy | 8 | 50.0 % ± 0.0 % | 50.0 % ± 0.0 % | 12.5 % ± 0.0 % | 90.0 % | 0.5 % | 0 of 3 |")
        self.assertEqual(len(rows), 6)


if __name__ == "__main__":
    unittest.main()

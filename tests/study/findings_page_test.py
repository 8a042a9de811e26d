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


def contender(heads, steps, entropy, budget=1000):
    """`steps` to 99 %, the same for every seed; None: never."""
    seed = {"accuracy": 0.9 if steps is None else 0.995, "relative_entropy": entropy}
    if steps is not None:
        seed["steps_to_99_percent"] = steps
    return {"heads": heads, "head_dim": 256 // heads, "budget": budget, "seeds": [seed] * SEEDS}


def form(roles, scores):
    """A model's training: `scores` by step, 100 apart, and the roles that its heads end with."""
    steps = [{"step": 100 * n, "accuracy": score, "induction": [0, score, score / 2]} for n, score in enumerate(scores)]
    return {"roles": [{"scores": [{"role": role, "score": 0.9, "holds": True}]} for role in roles], "steps": steps,
            "naive_induction_score": scores[-1], "induction_score": scores[-1]}


def anatomy(roles, link, goes, random, rho, loss):
    """A model of four heads, of which the first does most damage."""
    curve = {"within_budget": goes}
    return {"seed": 1, "whole": {"heads": 4}, "rank_correlation": rho, "most_damaging": "0.0",
            "one_shot_below_random_from": 0,
            "relations": {"subject-verb": {"accuracy": link, "best_offset": 0.3}},
            "roles": [{"head": f"0.{n}", "role": role} for n, role in enumerate(roles)],
            "importance": [{"head": f"0.{n}", "accuracy_loss": loss, "logit": {"mean": 1.0}, "damage_zero": {"mean": 1.0}}
                           for n in range(4)],
            "pruning": {"iterative": curve, "one_shot": curve, "random": [{"within_budget": random}]}}


def study(copy, classify, two_layers, one_layer, each):
    return {"comparison": {"copy": copy, "classify": classify},
            "formation": {"two_layers": [two_layers] * SEEDS, "one_layer": [one_layer] * SEEDS,
                          "fixed_length": [one_layer] * SEEDS,
                          "knock_outs": [{key: 0.5 for key in findings.SHUT}] * SEEDS},
            "anatomy": [each] * SEEDS}


def contenders(steps, entropy):
    return [contender(heads, steps[heads], entropy[:heads] or entropy) for heads in (1, 8, 16)]


EVERYTHING = study(contenders({1: 40, 8: 40, 16: None}, [0.1, 0.8] * 8), contenders({1: None, 8: 500, 16: None}, [0.1, 0.8] * 8),
                   form(["induction", "previous token"], [0, 0.05, 0.9, 0.9, 0.9, 0.9]), form([], [0, 0, 0.1]),
                   anatomy(["averaging", "separator", "rare token", None], 0.9, 2, 1, 0.9, 0.001))
NOTHING = study(contenders({1: 50, 8: 50, 16: 50}, [0.5] * 16), contenders({1: 500, 8: 500, 16: 500}, [0.5] * 16),
                form([], [0, 0.05, 0.1]), form(["induction"], [0, 0.9]),
                anatomy(["subject-verb"] * 4, 0.3, 0, 2, 0.1, 0.5))


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

    def test_entropies_are_those_of_models_that_learnt_the_task(self):
        rows = findings.comparison(EVERYTHING).splitlines()[2:]
        self.assertTrue(rows[1].endswith("| 3 of 3 | 99.5 % | 40 | 0.45 | 0.10 | 0.80 |"), rows[1])
        self.assertTrue(rows[2].endswith("| 0 of 3 | 90.0 % | never |  |  |  |"), rows[2])


if __name__ == "__main__":
    unittest.main()

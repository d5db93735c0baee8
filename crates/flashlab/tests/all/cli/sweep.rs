//! `flashlab sweep`: from a plan to a file, stored points, damaged results and refused plans.

use super::folder::Folder;

const PLAN: &str = "device = \"sd/kingston\"\njob = \"--rw=randwrite --bs=4k --size=4m --number_ios=100\"\n\
                    [grid]\n\"flash.t_prog\" = [\"250us\", \"1ms\"]\niodepth = [1, 4]\n";

fn results(folder: &Folder) -> Vec<u8> {
    std::fs::read(folder.path("plan/results.parquet")).expect("the sweep wrote its results")
}

#[test]
fn a_sweep_runs_once_and_its_threads_do_not_change_the_file() {
    let folder = Folder::new("sweep");
    folder.put("plan.toml", PLAN);
    let run = folder.run(&["sweep", "--threads", "1", "plan.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
    assert!(
        run.err.contains("4 points ran, 0 were stored already; plan/results.parquet has 4 of 4 rows"),
        "{}",
        run.err
    );
    assert!(
        run.err.contains("flashlab: without effect here: iodepth, which the plan varies\n"),
        "{}",
        run.err
    );
    assert!(run.out.starts_with("point") && run.out.contains("flash.t_prog=1ms, iodepth=4"), "{}", run.out);
    let csv = folder.run(&["sweep", "--format", "csv", "plan.toml"]).out;
    assert!(csv.starts_with("key,flash.t_prog,iodepth,") && csv.lines().count() == 5, "{csv}");
    let first = results(&folder);
    let again = folder.run(&["sweep", "plan.toml"]);
    assert!(again.err.contains("0 points ran, 4 were stored already"), "{}", again.err);
    std::fs::remove_dir_all(folder.path("plan")).expect("the path exists");
    folder.run(&["sweep", "--threads", "4", "plan.toml"]);
    assert!(results(&folder) == first, "the file depends on the number of threads");
    let list = folder.run(&["sweep", "--list", "plan.toml"]);
    assert_eq!(list.out.lines().count(), 4);
    assert!(list.out.lines().next().is_some_and(|line| line.ends_with(" flash.t_prog=250us, iodepth=1")));
}

#[test]
fn a_job_file_beside_the_plan_has_the_names_as_variables() {
    let folder = Folder::new("sweep-job-file");
    folder.put("job.fio", "[a]\nrw=randwrite\ndirect=1\nsize=4m\nnumber_ios=20\nbs=${block}\n");
    folder
        .put("plan.toml", "device = \"sd/kingston\"\njob = \"job.fio\"\n[grid]\nblock = [\"4k\", \"8k\"]\n");
    let run = folder.run(&["sweep", "plan.toml"]);
    assert_eq!(run.code, Some(0), "{}", run.err);
}

#[test]
fn mistakes_are_refused_before_anything_runs() {
    let folder = Folder::new("sweep-refused");
    let refused = |plan: &str| {
        folder.put("plan.toml", plan);
        let run = folder.run(&["sweep", "plan.toml"]);
        assert_eq!(run.code, Some(2), "{}", run.err);
        assert!(!folder.path("plan").exists(), "a refused plan has written files");
        run.err
    };
    let error = refused(&PLAN.replace("t_prog", "t_prgo"));
    assert!(error.contains("plan.toml: point flash.t_prgo=250us, iodepth=1: "), "{error}");
    let error = refused(&PLAN.replace("[grid]", "[gird]"));
    assert!(error.contains("plan.toml: ") && error.contains("gird"), "{error}");
    let error = refused("device = \"sd/kingston\"\njob = \"absent.fio\"\n[grid]\na = [1]\n");
    assert!(error.contains("absent.fio"), "{error}");
    let run = folder.run(&["sweep", "--threads", "0", "plan.toml"]);
    assert!(run.code == Some(2) && run.err.contains("expected at least 1"), "{}", run.err);
}

#[test]
fn damaged_results_are_named() {
    let folder = Folder::new("sweep-damaged");
    folder.put("plan.toml", PLAN);
    folder.run(&["sweep", "plan.toml"]);
    let parts = std::fs::read_dir(folder.path("plan/parts")).expect("the path exists");
    let part = parts.map(|part| part.expect("readable").path()).next().expect("a part");
    std::fs::write(&part, b"PAR1").expect("writable");
    let run = folder.run(&["sweep", "plan.toml"]);
    assert_eq!(run.code, Some(2));
    assert!(run.err.contains("part-") && run.err.contains("remove the file"), "{}", run.err);
}
